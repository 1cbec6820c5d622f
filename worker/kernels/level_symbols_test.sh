#!/bin/sh
# A level's object file must define no function for the linker but its table's accessor: any other could be picked for
# code that runs on processors without the level's instructions. Arguments: the levels' libraries.
status=0
for library in "$@"; do
  functions=$(nm -C --defined-only "$library" | awk '$2 ~ /^[TWiw]$/ { $1 = ""; print }')
  case "$functions" in
    " T farandole::Avx2Kernels()" | " T farandole::Avx512Kernels()") ;;
    *)
      echo "$library should define one function, the accessor of its table, and defines: $functions"
      status=1
      ;;
  esac
done
exit $status
