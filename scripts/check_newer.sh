#!/usr/bin/env bash
# Builds and runs the C++ tests with the compiler and libraries of Debian 13 (trixie), in a debootstrap
# under build/trixie. Needs root and the network the first time; later calls reuse the folder.
# Not part of CI. The mirror is the one this machine's apt uses, read at run time.
set -euo pipefail
source "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || die "needs root for debootstrap and chroot: run it through sudo"
scripts/deps.sh newer

# apt may reach its mirror through a proxy, which debootstrap and the apt inside must be told of.
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
export http_proxy=${http_proxy:-}

root=$PWD/build/trixie
if [ ! -e "$root/ready" ]; then
  say "debootstrap"
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
  [ -n "$mirror" ] || die "apt knows no Debian mirror (apt-get indextargets)"
  rm -rf "$root"
  debootstrap --variant=minbase trixie "$root" "$mirror" >build/debootstrap.log 2>&1 ||
    { tail -n 20 build/debootstrap.log "$root"/debootstrap/debootstrap.log 2>/dev/null >&2; die "debootstrap failed"; }
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  touch "$root/ready"
fi

# The tree as git sees it; its build folder and the files' times stay, so a second call is incremental.
say "copy of the tree"
mkdir -p "$root/liveshape"
find "$root/liveshape" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard --deduplicate | perl -0ne 'chomp; print "$_\0" if -f' |
  tar --null --files-from=- -cf - | tar -xf - -C "$root/liveshape"

say "build and test"
chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin JOBS="$jobs" \
  http_proxy="$http_proxy" bash -euc '
    cd /liveshape
    scripts/deps.sh build unit
    g++ --version | head -n 1
    scripts/build.sh release all liveshape_tests
    ctest --test-dir build/release --output-on-failure'
