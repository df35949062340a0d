#!/bin/sh
# Makes .venv and checks the programs linkqual drives. Repeats are free: a stamp in .venv remembers what was installed.
#   scripts/bootstrap.sh            everything
#   scripts/bootstrap.sh --programs only the system's programs
# As root on a Debian family system what is missing is installed; otherwise one line says what to type.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
# UV_NATIVE_TLS: trust what the system trusts, as behind a company's proxy.
export UV_PYTHON_DOWNLOADS=never UV_NATIVE_TLS=1

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

missing_programs() {
    # program:package, where a Debian family system finds it
    for pair in iperf3:iperf3 ping:iputils-ping ip:iproute2 tc:iproute2 nft:nftables iptables:iptables \
        ethtool:ethtool tcpdump:tcpdump nsenter:util-linux; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null 2>&1 || printf '%s\n' "${pair#*:}"
    done | sort -u
}

install_packages() {
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $*"
        log=$(mktemp)
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
            >"$log" 2>&1 </dev/null || { tail -n 5 "$log" >&2; rm -f "$log"; die "apt-get could not install: $*"; }
        rm -f "$log"
    else
        die "missing: $*   Type:  sudo apt-get install $*   and start again"
    fi
}

find_python() {
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        if command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
}

programs() {
    wanted=$(missing_programs | tr '\n' ' ')
    # shellcheck disable=SC2086  # a list of package names
    [ -z "$wanted" ] || install_packages $wanted
    if [ "$(id -u)" -ne 0 ] && ! unshare -Urn true 2>/dev/null; then
        say "this user may not make namespaces, so the embedded line needs root. To allow it:" \
            "sudo sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000"
    fi
}

# pip compiles what it installs; uv is to do so too, or every start would where nobody may write (or PYTHONDONTWRITEBYTECODE).
with_uv() {
    "$venv/bin/python" -m uv pip sync -q --compile-bytecode --require-hashes --python "$venv/bin/python" requirements.lock &&
        "$venv/bin/python" -m uv pip install -q --python "$venv/bin/python" --no-deps -e .
}

with_pip() {
    "$venv/bin/python" -m pip install -q --require-hashes -r requirements.lock &&
        "$venv/bin/python" -m pip install -q --no-deps -e .
}

environment() {
    python=$(find_python)
    if [ -z "$python" ]; then
        install_packages python3 python3-venv
        python=$(find_python)
        [ -n "$python" ] || die "linkqual needs Python 3.11 or newer; this system has $(python3 --version 2>&1)"
    fi
    want=$(cat requirements.lock pyproject.toml | cksum)" $($python -c 'import sys; print(sys.version)' | tr '\n' ' ')"
    if [ -f "$venv/.ready" ] && [ "$(cat "$venv/.ready")" = "$want" ] && "$venv/bin/linkqual" --version >/dev/null 2>&1; then
        return
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        install_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    say "making $venv with $("$python" --version) (about a minute)"
    rm -f "$venv/.ready"
    "$python" -m venv --clear "$venv"
    # uv is quick; plain pip reads the same lock where uv cannot be had or cannot reach the registry.
    if ! { "$venv/bin/python" -m pip install -q uv && with_uv; } >"$venv/setup.log" 2>&1; then
        with_pip >>"$venv/setup.log" 2>&1 || {
            tail -n 5 "$venv/setup.log" >&2
            die "the packages of requirements.lock could not be installed: is the package registry reachable?"
        }
    fi
    "$venv/bin/linkqual" --version >/dev/null || die "linkqual does not start"
    printf '%s' "$want" >"$venv/.ready"
    say "ready: $venv/bin/linkqual"
}

programs
[ "${1:-}" = --programs ] || environment
