// SPDX-License-Identifier: BSD-2-Clause

//! Call chains of known shape in optimized Rust: boxes, vectors that grow, closures, trait objects, generic
//! functions, threads, a panic that is caught. Protocol and truth as in chains.c. Names are demangled. With
//! --cfg v0 they are those of Rust's second way of mangling, which has more detail.
use std::cmp::Ordering;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Functions whose names differ between the two ways of mangling.
const GENERIC: [&str; 2] = if cfg!(v0) {
    ["generic::<u32>", "generic::<u16>"]
} else {
    ["generic", "generic"]
};
const CLOSURE: &str = if cfg!(v0) {
    "run::{closure#0}"
} else {
    "run::{{closure}}"
};

/// A line of the truth: a block's size and the program's functions on its stack, innermost first.
struct Truth(Vec<String>);

impl Truth {
    fn expect(&mut self, size: usize, names: &[&str]) {
        let names: Vec<String> = names
            .iter()
            .map(|n| {
                if n.starts_with('<') {
                    n.to_string()
                } else {
                    format!("rust_chain::{}", n)
                }
            })
            .collect();
        self.0
            .push(format!("\"{}\": [\"{}\"]", size, names.join("\", \"")));
    }
}

/// Hides a value from the compiler, as std::hint::black_box does in later Rust. A use of this function after a call
/// keeps the call from becoming a jump.
#[inline(always)]
fn black_box<T>(value: T) -> T {
    let copy = unsafe { std::ptr::read_volatile(&value) };

    std::mem::forget(value);
    copy
}

#[inline(always)]
fn keep<T>(value: T) {
    std::mem::forget(black_box(value));
}

#[inline(never)]
fn allocate(size: usize) {
    keep(Vec::<u8>::with_capacity(black_box(size)));
}

#[inline(never)]
fn middle(size: usize) {
    allocate(size);
    black_box(size);
}

#[inline(never)]
fn make_box() {
    keep(Box::new([1u8; 3002]));
    black_box(0);
}

#[inline(never)]
fn grow_vector() {
    let mut v: Vec<u8> = Vec::with_capacity(16);
    v.resize(black_box(3003), 1); // realloc
    keep(v);
    black_box(0);
}

#[inline(never)]
fn zeroed() {
    keep(vec![0u8; black_box(3004)]); // calloc
    black_box(0);
}

#[repr(align(64))]
struct Aligned([u8; 64 * 47]);

#[inline(never)]
fn aligned() {
    keep(Box::new(Aligned([2; 64 * 47]))); // posix_memalign: 3008 bytes
    black_box(0);
}

trait Shape {
    fn draw(&self);
}

struct Circle(usize);

impl Shape for Circle {
    #[inline(never)]
    fn draw(&self) {
        middle(self.0);
        black_box(0);
    }
}

#[inline(never)]
fn draw_all(shapes: &[Box<dyn Shape>]) {
    for shape in shapes {
        shape.draw();
    }
    black_box(0);
}

#[inline(never)]
fn generic<T: Copy + Into<u64>>(value: T) {
    middle(value.into() as usize);
    black_box(value);
}

#[inline(never)]
fn call_closure(f: &dyn Fn(usize), size: usize) {
    black_box(f)(size);
    black_box(0);
}

#[inline(never)]
fn descend(depth: usize, size: usize) -> usize {
    if depth > 1 {
        black_box(descend(black_box(depth - 1), size)) + 1
    } else {
        allocate(size);
        black_box(1)
    }
}

struct Dropped(usize);

impl Drop for Dropped {
    #[inline(never)]
    fn drop(&mut self) {
        middle(self.0);
        black_box(0);
    }
}

/// A value that is dropped while a panic unwinds. The panicking function is no longer on its stack.
#[inline(never)]
fn panicking() {
    let _dropped = Dropped(black_box(3020));
    std::panic::resume_unwind(Box::new(()));
}

#[inline(never)]
fn catch() {
    keep(std::panic::catch_unwind(panicking));
}

#[inline(never)]
fn compare(a: u32, b: u32) -> Ordering {
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    if CALLS.fetch_add(1, Relaxed) == 0 {
        middle(3030);
    }
    black_box(a).cmp(&b)
}

#[inline(never)]
fn sort() {
    let mut numbers: Vec<u32> = (0..8).rev().collect();

    numbers.sort_by(|a, b| compare(*a, *b));
    black_box(numbers);
}

#[inline(never)]
fn in_thread(size: usize) {
    middle(size);
    black_box(0);
}

#[inline(never)]
fn run(truth: &mut Truth) {
    middle(3001);
    truth.expect(3001, &["allocate", "middle", "run", "main"]);
    make_box();
    truth.expect(3002, &["make_box", "run", "main"]);
    grow_vector();
    truth.expect(3003, &["grow_vector", "run", "main"]);
    zeroed();
    truth.expect(3004, &["zeroed", "run", "main"]);
    aligned();
    truth.expect(3008, &["aligned", "run", "main"]);
    draw_all(&[Box::new(Circle(3010))]);
    truth.expect(
        3010,
        &[
            "allocate",
            "middle",
            "<rust_chain::Circle as rust_chain::Shape>::draw",
            "draw_all",
            "run",
            "main",
        ],
    );
    generic(3011u32);
    truth.expect(3011, &["allocate", "middle", GENERIC[0], "run", "main"]);
    generic(3012u16);
    truth.expect(3012, &["allocate", "middle", GENERIC[1], "run", "main"]);
    let closure = |size| {
        middle(size);
        black_box(size);
    };
    call_closure(&closure, 3013);
    truth.expect(
        3013,
        &["allocate", "middle", CLOSURE, "call_closure", "run", "main"],
    );
    black_box(descend(100, 3014));
    let mut names = vec!["allocate"];
    names.extend(vec!["descend"; 100]);
    names.extend(["run", "main"]);
    truth.expect(3014, &names);
    catch();
    truth.expect(
        3020,
        &[
            "allocate",
            "middle",
            "<rust_chain::Dropped as core::ops::drop::Drop>::drop",
            "panicking",
            "catch",
            "run",
            "main",
        ],
    );
    sort();
    truth.expect(
        3030,
        &["allocate", "middle", "compare", "sort", "run", "main"],
    );
    for size in [3040, 3041, 3042] {
        std::thread::spawn(move || in_thread(size)).join().unwrap();
    }
    truth.expect(3040 + 3041 + 3042, &["allocate", "middle", "in_thread"]);
}

fn main() {
    let mut line = String::new();
    let mut truth = Truth(Vec::new());

    println!("ready {}", std::process::id());
    std::io::stdin().lock().read_line(&mut line).unwrap();
    run(&mut truth);
    println!(
        "{{\"stacks\": {{{}}}, \"functions\": {{}}}}",
        truth.0.join(", ")
    );
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_line(&mut line).unwrap(); // "quit", or the end
}
