#!/usr/bin/env bash
# Checks the dashboard's types. Its packages are the build's: TypeScript finds node_modules in a folder above the sources.
set -euo pipefail

runfiles=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -rL web/app/src web/app/tsconfig.json "$work"
ln -s "$(realpath "$runfiles/../npm/node_modules")" "$work/node_modules"
compiler=("$work"/node_modules/@typescript/typescript-linux-*/lib/tsc)
cd "$work"
"${compiler[0]}" --project tsconfig.json
