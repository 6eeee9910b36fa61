#!/bin/sh
# Installs Flynn {{.Version}} below a prefix: bin/flynn and lib/flynn. It downloads one archive and refuses it unless its SHA-256 is the one in
# checksums.txt. It needs no root, and asks for none.
#
#   sh install.sh [PREFIX]        PREFIX is $HOME/.local unless it is named
#
# FLYNN_DOWNLOAD names another place with the files of the release, such as a mirror or file:///srv/flynn.
set -eu

version={{.Version}}
from=${FLYNN_DOWNLOAD:-{{.URL}}}
prefix=${1:-${HOME:?}/.local}

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "there is no Flynn for $(uname -s)" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no Flynn for $(uname -m)" ;;
esac
title=flynn-$version-$os-$arch

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM

download() {
	if command -v curl >/dev/null; then
		curl -fsSL --retry 2 --max-time 600 -o "$temp/$1" "$from/$1"
	elif command -v wget >/dev/null; then
		wget -q -T 60 -O "$temp/$1" "$from/$1"
	else
		fail "neither curl nor wget is installed"
	fi || fail "cannot download $from/$1"
}

sum_of() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1"
	else
		shasum -a 256 "$1"
	fi | cut -d' ' -f1
}

download checksums.txt
want=$(awk -v name="$title.tar.gz" '$2 == name { print $1 }' "$temp/checksums.txt")
[ ${#want} -eq 64 ] || fail "checksums.txt does not name $title.tar.gz once"
download "$title.tar.gz"
got=$(sum_of "$temp/$title.tar.gz")
[ "$got" = "$want" ] || fail "$title.tar.gz has the SHA-256 $got, and checksums.txt says $want: nothing was installed"

tar -xzf "$temp/$title.tar.gz" -C "$temp"
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share"
# The new files come beside the old ones, and then take their names.
rm -rf "$prefix/lib/flynn.new" "$prefix/lib/flynn.previous"
cp -R "$temp/$title/lib/flynn" "$prefix/lib/flynn.new"
cp "$temp/$title/bin/flynn" "$prefix/bin/flynn.new"
"$prefix/bin/flynn.new" version >/dev/null || fail "$prefix/bin/flynn.new does not run on this machine"
[ ! -e "$prefix/lib/flynn" ] || mv "$prefix/lib/flynn" "$prefix/lib/flynn.previous"
[ ! -e "$prefix/bin/flynn" ] || cp -p "$prefix/bin/flynn" "$prefix/bin/flynn.previous"
mv "$prefix/lib/flynn.new" "$prefix/lib/flynn"
mv "$prefix/bin/flynn.new" "$prefix/bin/flynn"
cp -R "$temp/$title/share/." "$prefix/share/"

"$prefix/bin/flynn" version
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "Add $prefix/bin to PATH." ;;
esac
