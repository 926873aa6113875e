// SPDX-License-Identifier: BSD-2-Clause

// Call chains of known shape through Go and C: goroutines on stacks of their own, which move when
// they grow, and C on the thread's stack. Protocol and truth as in chains.c. All blocks in the truth
// come from C.malloc, because Go's own heap does not use malloc.
package main

/*
#include <pthread.h>
#include <stdlib.h>

void goCallback(size_t size, int grow);

#define NOINLINE static __attribute__((noinline, unused))

// rbp is just a register here
#define BUSY_RBP __asm__ volatile("mov $7, %%ebp" : : : "rbp", "memory")

NOINLINE void c_leaf(size_t size)
{
	void *volatile p = malloc(size);

	BUSY_RBP;
	(void)p;
}

NOINLINE void c_middle(size_t size, int grow)
{
	BUSY_RBP;
	goCallback(size, grow);
	BUSY_RBP;
}

NOINLINE void c_outer(size_t size, int grow)
{
	c_middle(size, grow);
	__asm__ volatile("");
}

// Does not change rbp. Go's value in it must not be used after the callback has moved Go's stack.
NOINLINE void c_keeps_rbp(size_t size, int grow)
{
	goCallback(size, grow);
	__asm__ volatile("");
}

NOINLINE void *c_thread(void *arg)
{
	c_middle((size_t)arg, 0);
	return NULL;
}

NOINLINE void c_run_thread(size_t size)
{
	pthread_t thread;

	pthread_create(&thread, NULL, c_thread, (void *)size);
	pthread_join(thread, NULL);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
)

var truth []string

// Adds a line to the truth: a block's size (the sum, if several blocks have one stack) and the program's functions
// on the stack, innermost first.
func expect(size int, names ...string) {
	truth = append(truth, fmt.Sprintf("\"%d\": [\"%s\"]", size, strings.Join(names, "\", \"")))
}

func times(n int, name string) []string {
	return strings.Split(strings.Repeat(name+" ", n-1)+name, " ")
}

//go:noinline
func allocate(size int) {
	C.malloc(C.size_t(size))
}

//go:noinline
func middle(size int) {
	allocate(size)
}

type receiver struct{ size int }

//go:noinline
func (r *receiver) method() {
	middle(r.size)
}

//go:noinline
func callClosure(f func()) {
	f()
}

// Has a frame of more than a kilobyte. So the stack grows, and is moved, again and again.
//
//go:noinline
func descend(depth, size int) byte {
	var room [1024]byte

	room[depth] = byte(depth)
	if depth > 1 {
		return room[depth] + descend(depth-1, size)
	}
	allocate(size)
	return room[depth]
}

//go:noinline
func grow(depth int) byte {
	var room [4096]byte

	room[depth] = byte(depth)
	if depth > 1 {
		return room[depth] + grow(depth-1)
	}
	return room[depth]
}

//export goCallback
func goCallback(size C.size_t, growing C.int) {
	if growing > 0 {
		grow(100)
	}
	if growing > 1 { // other data may overwrite the stack that was left
		var wait sync.WaitGroup

		for i := 0; i < 64; i++ {
			wait.Add(1)
			go func() {
				grow(6)
				wait.Done()
			}()
		}
		wait.Wait()
	}
	middle(int(size))
}

//go:noinline
func callC(size int) {
	C.c_leaf(C.size_t(size))
}

//go:noinline
func callBack(size int, growing int) {
	C.c_outer(C.size_t(size), C.int(growing))
}

//go:noinline
func callBackPlainly(size int, growing int) {
	C.c_keeps_rbp(C.size_t(size), C.int(growing))
}

func inGoroutine(f func()) {
	done := make(chan bool)

	go func() {
		f()
		done <- true
	}()
	<-done
}

func run() {
	goroutine := []string{"main.inGoroutine.func1"}

	middle(4001)
	expect(4001, "main.allocate", "main.middle", "main.run", "main.main")
	(&receiver{4002}).method()
	expect(4002, "main.allocate", "main.middle", "main.(*receiver).method", "main.run", "main.main")
	callClosure(func() { middle(4003) })
	expect(4003, "main.allocate", "main.middle", "main.run.func1", "main.callClosure", "main.run",
		"main.main")
	callC(4004)
	expect(4004, "c_leaf", "main.callC", "main.run", "main.main")
	callBack(4005, 0)
	expect(4005, "main.allocate", "main.middle", "main.goCallback", "goCallback", "c_middle",
		"c_outer", "main.callBack", "main.run", "main.main")
	C.c_run_thread(4006)
	expect(4006, "main.allocate", "main.middle", "main.goCallback", "goCallback", "c_middle",
		"c_thread")

	inGoroutine(func() { descend(90, 4007) })
	expect(4007, append(append([]string{"main.allocate"}, times(90, "main.descend")...),
		"main.run.func2", goroutine[0])...)
	for growing := 0; growing < 3; growing++ {
		inGoroutine(func() { callBack(5000, growing) })
		inGoroutine(func() { callBackPlainly(6000, growing) })
	}
	expect(3*5000, "main.allocate", "main.middle", "main.goCallback", "goCallback", "c_middle",
		"c_outer", "main.callBack", "main.run.func3", goroutine[0])
	expect(3*6000, "main.allocate", "main.middle", "main.goCallback", "goCallback",
		"c_keeps_rbp", "main.callBackPlainly", "main.run.func4", goroutine[0])

	var wait sync.WaitGroup

	for i := 0; i < 64; i++ { // run at the same time, on several threads
		wait.Add(1)
		go func() {
			middle(700)
			wait.Done()
		}()
	}
	wait.Wait()
	expect(64*700, "main.allocate", "main.middle", "main.run.func5")
}

func main() {
	in := bufio.NewReader(os.Stdin)

	fmt.Printf("ready %d\n", os.Getpid())
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(1)
	}
	run()
	fmt.Printf("{\"stacks\": {%s}, \"functions\": {}}\n", strings.Join(truth, ", "))
	in.ReadString('\n') // "quit", or the end
}
