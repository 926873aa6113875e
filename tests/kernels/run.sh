#!/bin/sh
# Runs memtrace on other kernels than this machine's: boots Debian 12's cloud kernels in qemu (pure
# emulation, no KVM, no root) from an initramfs of busybox, build/memtrace and the target programs,
# and compares what memtrace says there with the truth.
# Usage: tests/kernels/run.sh [6.1|6.12]...     (default: both)
# Needs: make all progs; packages qemu-system-x86, busybox-static, cpio, python3, and once, to fetch
# the kernels into build/kernels/, apt-get with a network.
# Exit status: 0, 1 (wrong), 2 (cannot run). BOOT_TIMEOUT_S (150) is the limit for each guest.
# KEEP=1 leaves the initramfs and the results in build/kernels/.
set -eu

cd "$(dirname "$0")/../.."
here=tests/kernels
store=build/kernels
boot_timeout_s=${BOOT_TIMEOUT_S:-150}
work=
trap '[ -z "$work" ] || [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

cannot() {
    echo "kernels: $*" >&2
    exit 2
}

# The meta package that names the newest kernel of a series in Debian 12, and the kinds of probe
# that must work on it; the others of the ladder must be refused.
kernel_meta() {
    case $1 in
    6.1) echo linux-image-cloud-amd64 ;;
    6.12) echo linux-image-6.12-cloud-amd64 ;;
    *) cannot "no kernel '$1': 6.1, 6.12" ;;
    esac
}
kernel_kinds() {
    case $1 in
    6.1) echo perf ;;
    6.12) echo multi perf ;;
    esac
}

need() {
    command -v "$1" >/dev/null || cannot "$1 is missing: apt-get install $2"
}

# Puts the series' kernel image into the store, once.
fetch_kernel() {
    image=$store/vmlinuz-$1
    [ ! -s "$image" ] || return 0
    need apt-get apt
    need dpkg-deb dpkg
    meta=$(kernel_meta "$1")
    package=$(apt-cache depends --no-recommends --no-suggests "$meta" 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-6[^ ]*\)$/\1/p' | head -n 1)
    [ -n "$package" ] || cannot "apt knows no $meta: apt-get update, or add bookworm's sources"
    echo "kernels: fetching $package"
    work=$(mktemp -d)
    chmod 755 "$work" # apt's own user writes here when it can
    (cd "$work" && timeout --foreground 180 apt-get download -q "$package" >apt.log 2>&1) || {
        cat "$work/apt.log" >&2
        cannot "cannot download $package: apt-get update may help"
    }
    dpkg-deb -x "$work"/*.deb "$work/root"
    mkdir -p "$store"
    cp "$work"/root/boot/vmlinuz-* "$image.$$"
    mv "$image.$$" "$image"
    rm -rf "$work"
}

# The initramfs: a root file system with nothing in it that the test does not use.
build_initrd() {
    root=$work/root
    mkdir -p "$root/bin" "$root/progs" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/out"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp build/memtrace "$root/bin/"
    cp build/progs/truth_basic build/progs/truth_threads build/progs/churn "$root/progs/"
    cp "$here/init" "$root/init"
    chmod 755 "$root/init"
    kernel_kinds "$1" >"$root/kinds"
    # shared libraries and the loader, where the loader will look for them
    ldd build/memtrace build/progs/truth_threads | sed -n 's/.*[ \t]\(\/[^ ]*\) (0x.*/\1/p' |
        sort -u | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >"$work/initrd"
}

# Boots the series' kernel until it powers off, and judges what it sent.
run_kernel() {
    series=$1
    # ttyS0 is the guest's console, ttyS1 takes the results.
    started=$(date +%s)
    status=0
    timeout --foreground -k 5 "$boot_timeout_s" \
        qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 768 \
        -nodefaults -nographic -no-reboot -kernel "$store/vmlinuz-$series" -initrd "$work/initrd" \
        -append 'console=ttyS0 panic=-1 oops=panic loglevel=4 quiet' \
        -serial "file:$work/console" -serial "file:$work/results.b64" </dev/null \
        >"$work/qemu.log" 2>&1 || status=$?
    cat "$work/qemu.log"
    # the firmware's screen control and greeting are left out
    [ ! -e "$work/console" ] || tr -d '\r' <"$work/console" |
        sed "s/\x1b[[?0-9;]*[a-zA-Z]//g; s/\x1bc//g; /^\$\|SeaBIOS\|^Booting/d; s/^/$series| /"
    if [ "$status" -ne 0 ]; then
        echo "kernels: $series: FAIL: qemu ended with status $status" \
            "(124: still running after $boot_timeout_s s)"
        return 1
    fi
    mkdir -p "$work/results"
    base64 -d -i "$work/results.b64" 2>/dev/null | tar -xzf - -C "$work/results" || {
        echo "kernels: $series: FAIL: the guest sent no results"
        return 1
    }
    # shellcheck disable=SC2046 # a list of words
    python3 "$here/check.py" "$series" "$work" $(kernel_kinds "$series") || return 1
    echo "kernels: $series: ok, $(($(date +%s) - started)) s"
}

need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
need python3 python3
for built in build/memtrace build/progs/truth_basic build/progs/truth_threads build/progs/churn; do
    [ -x "$built" ] || cannot "$built is not built: make all progs"
done
if ldd "$(command -v busybox)" >/dev/null 2>&1; then
    cannot "busybox needs shared libraries: apt-get install busybox-static"
fi
[ $# -gt 0 ] || set -- 6.1 6.12
for series; do
    kernel_meta "$series" >/dev/null
done
failed=
for series; do
    fetch_kernel "$series"
    work=$store/work-$series.$$
    build_initrd "$series"
    run_kernel "$series" || failed="$failed $series"
    [ -n "${KEEP:-}" ] || rm -rf "$work"
done
[ -z "$failed" ] || {
    echo "kernels: FAILED:$failed"
    exit 1
}
