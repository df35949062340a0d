#!/bin/sh
# mypy wants one folder a package; probes/, profiles/ and reports/ lie beside linkqual/ in the tree but install inside it.
# This lays a git-ignored folder of links that looks like the installed package.
set -eu
cd "$(dirname "$0")/.."
rm -rf .typeroot
mkdir -p .typeroot/linkqual
for entry in linkqual/*; do ln -s "../../$entry" ".typeroot/linkqual/${entry##*/}"; done
for entry in probes profiles reports; do ln -s "../../$entry" ".typeroot/linkqual/$entry"; done
