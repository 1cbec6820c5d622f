#!/bin/sh
# A level's object file must define nothing but its table's accessor for the
# linker: any other function could be picked for code that runs on processors
# without the level's instructions. Arguments: the levels' libraries.
status=0
for library in "$@"; do
  visible=$(nm -C --defined-only "$library" | awk '$2 ~ /^[A-Zuvw]$/ && $2 !~ /^[RDB]$/ { $1 = ""; print }')
  case "$visible" in
    " T farandole::Avx2Kernels()" | " T farandole::Avx512Kernels()") ;;
    *)
      echo "$library defines more than its accessor: $visible"
      status=1
      ;;
  esac
done
exit $status
