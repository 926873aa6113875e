#!/bin/sh
# Tests memtrace on other kernels than this machine's. Boots Debian's cloud kernels in qemu (pure
# emulation, no KVM, no root): two of Debian 12, and the newest, of Debian testing. The initramfs
# holds busybox, Python, build/memtrace, the target programs and the live tests. guest.py runs the
# core of the live tests.
# Usage: tests/kernels/run.sh [6.1|6.12|newest]...  (default: the first two, at once;
#                                                   docs/kernels.md says why)
#        tests/kernels/run.sh --list  prints each kernel's package and kinds of probe
#                                     (scripts/kernels-table)
# Needs: make all progs; packages qemu-system-x86, busybox-static, cpio, python3, and once, to fetch
# the kernels into build/kernels/, apt-get with a network.
# Exit status: 0, 1 (wrong), 2 (cannot run). BOOT_TIMEOUT_S (560) is the limit for each guest: two
# guests at once on two cores take some 290 s.
# KEEP=1 leaves the initramfs and the results in build/kernels/.
set -eu

cd "$(dirname "$0")/../.."
here=tests/kernels
store=$PWD/build/kernels
progs='truth_basic truth_threads truth_sampled exec_chain fork_child churn busy cxx_throw library.so
chains chains_static chains_static_pie chains_frames chains_frames_static chains_frames_static_pie
chains_mixed chains_mixed_static chains_mixed_static_pie chains_step.so chains_cxx
truth_regions truth_faults newborn reporter churn_static truth_basic_static'
boot_timeout_s=${BOOT_TIMEOUT_S:-560}
work=
trap '[ -z "$work" ] || [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
all_series='6.1 6.12'

cannot() {
    echo "kernels: $*" >&2
    exit 2
}

# The meta package that names the newest kernel of a series, the release that has it, and the kinds
# of probe that must work on this kernel. memtrace must refuse all other kinds there.
kernel_meta() {
    case $1 in
    6.1) echo linux-image-cloud-amd64 ;;
    6.12) echo linux-image-6.12-cloud-amd64 ;;
    newest) echo linux-image-cloud-amd64 ;;
    *) cannot "no kernel '$1': $all_series" ;;
    esac
}
kernel_suite() {
    case $1 in
    newest) echo testing ;;
    *) echo bookworm ;;
    esac
}
kernel_kinds() {
    case $1 in
    6.1) echo perf ;;
    6.12) echo multi perf ;;
    newest) echo session multi perf ;;
    esac
}

need() {
    command -v "$1" >/dev/null || cannot "$1 is missing: apt-get install $2"
}

# The package of the series' newest kernel, according to apt's lists.
newest_package() {
    apt-cache depends --no-recommends --no-suggests "$(kernel_meta "$1")" 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-6[^ ]*\)$/\1/p' | head -n 1
}

# The same for another release than this machine's. Its meta package is fetched to see which kernel
# it names. The image is in a package of its own.
download_foreign_kernel() {
    mkdir "$work/meta"
    scripts/fetch-debs "$work/meta" "$2" "$(kernel_meta "$1")" >"$work/apt.log" 2>&1 || return 1
    package=$(dpkg-deb -f "$work"/meta/*.deb Depends |
        sed -n 's/.*linux-image-\([^ ,]*\).*/linux-binary-\1/p')
    rm -r "$work/meta"
    mkdir "$work/debs"
    echo "kernels: fetching $package"
    scripts/fetch-debs "$work/debs" "$2" "$package" >>"$work/apt.log" 2>&1 &&
        mv "$work"/debs/*.deb "$work/"
}

download_kernel() {
    [ "$(kernel_suite "$1")" = bookworm ] || {
        download_foreign_kernel "$1" "$(kernel_suite "$1")"
        return
    }
    package=$(newest_package "$1")
    [ -n "$package" ] || {
        echo "apt knows no $(kernel_meta "$1")" >"$work/apt.log"
        return 1
    }
    echo "kernels: fetching $package"
    (cd "$work" && timeout --foreground 180 apt-get download -q "$package" >apt.log 2>&1)
}

# Puts the series' kernel image, and the module for overlayfs, into the store, once.
fetch_kernel() {
    image=$store/vmlinuz-$1 module=$store/overlay-$1.ko
    [ ! -s "$image" ] || [ ! -s "$module" ] || return 0
    need apt-get apt
    need dpkg-deb dpkg
    work=$(mktemp -d)
    chmod 755 "$work" # apt downloads as a user of its own
    # A fresh machine may have no lists; the lists of an old one may name packages that no longer
    # exist.
    download_kernel "$1" || {
        [ "$(id -u)" -ne 0 ] ||
            timeout --foreground 180 apt-get update -q >"$work/update.log" 2>&1 ||
            true # the second try below shows if this failed
        download_kernel "$1" || {
            cat "$work"/*.log >&2
            cannot "cannot fetch a kernel $1 of $(kernel_suite "$1"): no network, no" \
                "bookworm-security among apt's sources, or old lists (apt-get update)"
        }
    }
    dpkg-deb -x "$work"/*.deb "$work/root"
    mkdir -p "$store"
    find "$work/root" -name 'vmlinuz*' -type f -exec cp {} "$image.$$" \;
    find "$work/root" -name 'overlay.ko*' -type f |
        python3 -c 'import lzma, sys
path = input()
with (lzma.open if path.endswith(".xz") else open)(path, "rb") as module:
    sys.stdout.buffer.write(module.read())' >"$module.$$"
    mv "$module.$$" "$module"
    mv "$image.$$" "$image"
    rm -rf "$work"
    work=
}

# Copies the files that stdin names into the initramfs, each to the same path as here.
copy_in() {
    while read -r file; do
        mkdir -p "$1$(dirname "$file")"
        cp -pL "$file" "$1$file"
    done
}

# Builds the initramfs for all kernels: a root file system with only the files that are used.
build_initrd() {
    root=$work/root
    mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/memtrace/build"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/init" "$root/init"
    chmod 755 "$root/init"
    cp build/memtrace "$root/memtrace/build/"
    mkdir "$root/memtrace/build/progs"
    # shellcheck disable=SC2086 # a list
    (cd build/progs && cp $progs "$root/memtrace/build/progs/")
    # Python: the interpreter itself, not a script that chooses one, and the modules in use
    python=$(python3 -c 'import sys; print(sys.executable)')
    echo "$python" >"$root/python"
    python3 "$here/guest.py" --files >"$work/files"
    { echo "$python" && grep -v "^$PWD/" "$work/files"; } | copy_in "$root"
    sed -n "s:^$PWD/::p" "$work/files" | cpio -pdm --quiet "$root/memtrace"
    # shared libraries and the loader, where the loader will look for them
    # shellcheck disable=SC2046 # a list of words
    ldd build/memtrace "$root"/memtrace/build/progs/* "$python" $(grep '\.so$' "$work/files") |
        sed -n 's/.*[ \t]\(\/[^ ]*\) (0x.*/\1/p' | sort -u | copy_in "$root"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >"$work/initrd"
}

# Appends the series' module to a copy of the initramfs.
add_module() {
    mkdir "$work/module-$1"
    cp "$store/overlay-$1.ko" "$work/module-$1/overlay.ko"
    cp "$work/initrd" "$work/initrd-$1"
    (cd "$work/module-$1" && echo overlay.ko | cpio -o -H newc -R 0:0 --quiet) | gzip -1 \
        >>"$work/initrd-$1"
}

# Boots the series' kernel, waits until it powers off, and judges its results. Runs in a process of
# its own.
run_kernel() {
    series=$1 results=$work/results-$1
    # ttyS0 is the guest's console, ttyS1 takes the results.
    started=$(date +%s)
    status=0
    timeout --foreground -k 5 "$boot_timeout_s" \
        qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 768 \
        -nodefaults -nographic -no-reboot -kernel "$store/vmlinuz-$series" \
        -initrd "$work/initrd-$series" \
        -append 'console=ttyS0 panic=-1 oops=panic loglevel=4 quiet' \
        -serial "file:$work/console-$series" -serial "file:$results" </dev/null \
        >"$work/qemu-$series" 2>&1 &
    qemu=$!
    trap 'kill "$qemu"; exit 130' TERM
    wait "$qemu" || status=$?
    cat "$work/qemu-$series"
    # the firmware's screen control and greeting are left out
    [ ! -e "$work/console-$series" ] || tr -d '\r' <"$work/console-$series" |
        sed "s/\x1b[[?0-9;]*[a-zA-Z]//g; s/\x1bc//g; /^\$\|SeaBIOS\|^Booting/d; s/^/$series| /"
    # qemu's TCG emulates two CPUs, and now and then lets one run an instruction that the other is
    # patching. The kernel then dies, mostly while it boots, before the tests begin. If the kernel
    # dies later, it dies of an int3 in its own code, which only the kernel itself patches. Only in
    # these cases is the guest booted again. (The firmware's codes may precede the test's '--- '.)
    if { ! grep -q -e '--- ' "$work/console-$series" ||
        grep -q 'Oops: int3' "$work/console-$series"; } && [ "${2:-1}" -lt 3 ]; then
        echo "kernels: $series: the kernel died of the emulator; once more"
        run_kernel "$series" $((${2:-1} + 1))
        return
    fi
    if [ "$status" -ne 0 ]; then
        echo "kernels: $series: FAIL: qemu ended with status $status" \
            "(124: still running after $boot_timeout_s s)"
        return 1
    fi
    # shellcheck disable=SC2046 # a list of words
    python3 "$here/check.py" "$series" "$results" $(kernel_kinds "$series") || return 1
    echo "kernels: $series: ok, $(($(date +%s) - started)) s"
}

if [ "${1:-}" = --list ]; then
    for series in $all_series; do
        echo "$series $(kernel_suite "$series") $(kernel_meta "$series") $(kernel_kinds "$series")"
    done
    exit 0
fi
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
need python3 python3
for program in ../memtrace $progs; do
    [ -x "build/progs/$program" ] || cannot "build/progs/$program is not built: make all progs"
done
if ldd "$(command -v busybox)" >/dev/null 2>&1; then
    cannot "busybox needs shared libraries: apt-get install busybox-static"
fi
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $all_series
for series; do
    kernel_meta "$series" >/dev/null
    fetch_kernel "$series"
done
work=$store/work.$$
build_initrd
guests=
for series; do
    add_module "$series"
    run_kernel "$series" >"$work/said-$series" 2>&1 &
    guests="$guests $series:$!"
done
# shellcheck disable=SC2046 # a list of words
trap 'kill $(echo "$guests" | sed "s/[^ ]*://g") 2>/dev/null; exit 130' INT TERM
failed=
for guest in $guests; do
    wait "${guest#*:}" || failed="$failed ${guest%:*}"
    cat "$work/said-${guest%:*}"
done
[ -z "$failed" ] || {
    echo "kernels: FAILED:$failed"
    exit 1
}
