// SPDX-License-Identifier: BSD-2-Clause

// A Go program without any C. It allocates memory in one function. Protocol as in truth.h.
package main

import (
	"bufio"
	"fmt"
	"os"
)

const size = 300 << 20

var kept []byte

//go:noinline
func grow() {
	kept = make([]byte, size)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	fmt.Printf("ready %d\n", os.Getpid())
	in.ReadString('\n')
	grow()
	fmt.Printf("{\"functions\": {\"main.grow\": %d}}\n", size)
	in.ReadString('\n')
}
