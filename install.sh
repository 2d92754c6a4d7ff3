#!/bin/sh
# Installs pullhook: a release archive whose SHA-256 is checked, or (in a clone) what the sources build.
# No sudo, no questions, no edits of start-up files; nothing is left behind when it fails. `--help` has the rest.

set -eu
umask 022

version=0.1.0
base_url=${PULLHOOK_BASE_URL:-}
to=
from_source=no
dry_run=no
scratch=
staged=

usage() {
    cat <<'TEXT'
Installs pullhook into ~/.local/bin.

  sh install.sh --from-source                 build the clone that this script is in
  sh install.sh --base-url URL                a release archive, checked against its SHA-256

  --base-url URL     where releases are (or PULLHOOK_BASE_URL); https, or http on this machine
  --version VERSION  which release; without it, the one that this script came with
  --from-source      cargo build --release --locked, then install what it built
  --to DIR           install into DIR
  --dry-run          say what would happen; touch nothing, fetch nothing
  --help             this text

Exit codes: 0 installed; 1 something failed, what was installed before is untouched; 2 wrong usage.
TEXT
}

say() { printf '%s\n' "$*"; }

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

misuse() {
    printf 'install.sh: %s\n' "$*" >&2
    printf 'install.sh: see sh install.sh --help\n' >&2
    exit 2
}

has() { command -v "$1" >/dev/null 2>&1; }

clean_up() {
    [ -z "$staged" ] || rm -f "$staged"
    [ -z "$scratch" ] || rm -rf "$scratch"
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --base-url=* | --version=* | --to=*)
            name=${1%%=*} value=${1#*=}
            shift
            set -- "$name" "$value" "$@"
            continue
            ;;
        --base-url | --version | --to)
            [ $# -gt 1 ] && [ -n "$2" ] || misuse "$1 needs a value"
            case $1 in
            --base-url) base_url=$2 ;;
            --version) version=${2#v} ;;
            --to) to=$2 ;;
            esac
            shift 2
            ;;
        --from-source) from_source=yes && shift ;;
        --dry-run) dry_run=yes && shift ;;
        -h | --help) usage && exit 0 ;;
        *) misuse "unknown argument $1" ;;
        esac
    done
}

# Sets `to` when no flag did, and refuses what could not be a folder of one's own.
choose_folder() {
    if [ -z "$to" ]; then
        [ -n "${HOME:-}" ] || misuse "HOME is not set: say --to DIR"
        to=$HOME/.local/bin
    fi
    case $to in
    /*) ;;
    *) to=$PWD/$to ;;
    esac
}

# Sets `platform`, as archives are named.
detect_platform() {
    case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=macos ;;
    *) fail "no release archives for $(uname -s): build one with --from-source" ;;
    esac
    case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "no release archives for $(uname -m): build one with --from-source" ;;
    esac
    platform=$os-$arch
}

# A checksum from the same place proves nothing when both can be changed on the way.
check_base_url() {
    [ -n "$base_url" ] || misuse "say where releases are (--base-url URL), or --from-source in a clone"
    base_url=${base_url%/}
    case $base_url in
    https://?*) ;;
    http://*@*) misuse "the base URL must not carry a user name or password" ;;
    http://localhost[:/]* | http://127.0.0.1[:/]* | http://\[::1\][:/]*) ;;
    *) misuse "the base URL must start with https:// (http:// only on this machine): $base_url" ;;
    esac
    case $version in
    '' | *[!A-Za-z0-9.+-]*) misuse "not a version: $version" ;;
    esac
}

# fetch URL FILE
fetch() {
    case $base_url in
    https:*) protocols='=https' ;;
    *) protocols='=http,https' ;;
    esac
    if has curl; then
        curl --fail --silent --show-error --location --proto "$protocols" --output "$2" "$1" 2>"$scratch/why" && return
    elif has wget; then
        wget -q -t 1 -O "$2" "$1" 2>"$scratch/why" && return
    else
        fail "neither curl nor wget is installed"
    fi
    why=$(tail -n 1 "$scratch/why" 2>/dev/null || :)
    fail "could not fetch $1${why:+ ($why)}: is there a release $version for $platform?"
}

# The SHA-256 of a file, in hex.
sha256_of() {
    if has sha256sum; then
        sum=$(sha256sum <"$1")
    elif has shasum; then
        sum=$(shasum -a 256 <"$1")
    else
        fail "neither sha256sum nor shasum is installed: the archive can't be checked"
    fi
    printf '%s\n' "${sum%% *}"
}

# Sets `built` to the binary out of a checked archive.
from_release() {
    name=pullhook-$version-$platform
    url=$base_url/v$version/$name.tar.gz
    fetch "$url.sha256" "$scratch/sum"
    fetch "$url" "$scratch/archive"
    read -r wanted _ <"$scratch/sum" || [ -n "${wanted:-}" ] || fail "$url.sha256 is empty"
    wanted=$(printf '%s' "$wanted" | tr 'A-F' 'a-f')
    case $wanted in
    *[!0-9a-f]*) fail "$url.sha256 holds no SHA-256" ;;
    esac
    [ ${#wanted} -eq 64 ] || fail "$url.sha256 holds no SHA-256"
    found=$(sha256_of "$scratch/archive")
    [ "$found" = "$wanted" ] || fail "checksum mismatch: $url has $found, its checksum file says $wanted"
    tar -xzf "$scratch/archive" -C "$scratch" "$name/pullhook" 2>"$scratch/why" ||
        fail "$url is damaged, though its checksum is right ($(tail -n 1 "$scratch/why"))"
    built=$scratch/$name/pullhook
    { [ -f "$built" ] && [ ! -L "$built" ]; } || fail "$url holds no pullhook"
    chmod 755 "$built"
    "$built" --version >"$scratch/why" 2>&1 ||
        fail "the pullhook in $url does not start here ($(tail -n 1 "$scratch/why")): try --from-source"
}

# Sets `clone` to the folder of this script, when that is a clone of pullhook.
find_clone() {
    clone=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    grep -q '^name = "pullhook"$' "$clone/Cargo.toml" 2>/dev/null ||
        misuse "--from-source works in a clone of pullhook: there is none at $clone"
}

# Sets `built` to what the clone builds.
build_clone() {
    has cargo || fail "cargo is not installed: --from-source needs Rust"
    (cd "$clone" && cargo build --release --locked --bin pullhook --target-dir "$clone/target") ||
        fail "the build failed"
    built=$clone/target/release/pullhook
    [ -f "$built" ] || fail "the build left no $built"
}

# Sets `staged`, a file beside the one to replace; before the long part, so that a folder that can't be used is
# known at once.
prepare_folder() {
    mkdir -p "$to" 2>/dev/null || fail "can't create $to: choose another folder with --to DIR"
    [ ! -d "$to/pullhook" ] || fail "$to/pullhook is a folder: choose another place with --to DIR"
    staged=$(mktemp "$to/.pullhook.XXXXXX" 2>/dev/null) || fail "can't write to $to: choose another folder with --to DIR"
}

# The name changes hands in one step, so a running pullhook and a failed copy both leave a whole file behind.
put_in_place() {
    cp "$built" "$staged" || fail "can't write to $to"
    chmod 755 "$staged"
    mv -f "$staged" "$to/pullhook" || fail "can't replace $to/pullhook"
    staged=
}

say_result() {
    say "installed $("$to/pullhook" --version) as $to/pullhook"
    case :${PATH:-}: in
    *:"$to":*) ;;
    *)
        say "$to is not on your PATH; this adds it, for good in the start-up file of your shell:"
        say "  export PATH=\"$to:\$PATH\""
        return
        ;;
    esac
    first=$(command -v pullhook || :)
    [ "$first" = "$to/pullhook" ] || say "but $first comes first on your PATH"
}

main() {
    read_arguments "$@"
    choose_folder
    if [ $from_source = yes ]; then
        find_clone
        say "pullhook from the sources in $clone, to $to/pullhook"
    else
        check_base_url
        detect_platform
        say "pullhook $version for $platform from $base_url, to $to/pullhook"
    fi
    if [ $dry_run = yes ]; then
        say "dry run: nothing was fetched, built or written"
        return
    fi
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/pullhook.XXXXXX") || fail "can't make a temporary folder"
    prepare_folder
    if [ $from_source = yes ]; then build_clone; else from_release; fi
    put_in_place
    say_result
}

# The last line: a script that was cut on its way to `sh` does nothing.
main "$@"
