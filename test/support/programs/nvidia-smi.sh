#!/bin/sh
# A fake nvidia-smi. FAKE_GPUS is a folder:
#   gpus          one line a GPU: index|uuid|name|total MiB|kept by the driver MiB
#   mode          hang, exit9, na, lost or absent; anything else: it works
#   taken/UUID/   a file a process that uses the GPU, named PID-ANYTHING, with MiB in it; it counts while the process lives
#   columns       the header, where another than the usual is wanted: names of fields, comma-separated
#   calls         one line a call is added
here=${FAKE_GPUS:?}
mode=$(cat "$here/mode" 2>/dev/null)
echo "$*" >>"$here/calls"
case $mode in
hang) exec sleep 600 ;;
exit9)
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
  exit 9
  ;;
lost)
  echo "Unable to determine the device handle for GPU0: 0000:00:00.0: GPU is lost.  Reboot the system to recover this GPU"
  exit 15
  ;;
esac
case $1 in
--query-gpu=*) fields=$(echo "${1#--query-gpu=}" | tr ',' ' ') ;;
*)
  echo "Option $1 is not recognized"
  exit 2
  ;;
esac
[ -f "$here/columns" ] && fields=$(tr ',' ' ' <"$here/columns")
header=
for field in $fields; do
  case $field in
  memory.*) title="$field [MiB]" ;;
  utilization.*) title="$field [%]" ;;
  mig.mode.*)
    if [ -f "$here/no-mig" ]; then
      echo "Field \"$field\" is not a valid field to query."
      exit 2
    fi
    title=$field
    ;;
  *) title=$field ;;
  esac
  header="${header:+$header, }$title"
done
echo "$header"
while IFS='|' read -r index uuid name total kept; do
  [ -n "$uuid" ] || continue
  used=0
  for file in "$here/taken/$uuid"/*; do
    [ -f "$file" ] || continue
    pid=${file##*/}
    mib=0
    # The shell reads it by itself: a process a GPU took most of the time of a call. It may be gone by now, or have no line's end.
    { read -r mib <"$file"; } 2>/dev/null
    kill -0 "${pid%%-*}" 2>/dev/null && used=$((used + ${mib:-0}))
  done
  row=
  for field in $fields; do
    case $field in
    index) cell=$index ;;
    uuid) cell=$uuid ;;
    name) cell=$name ;;
    pci.bus_id) cell="00000000:0$index:00.0" ;;
    memory.total) cell="$total MiB" ;;
    memory.used) cell="$used MiB" ;;
    memory.free) cell="$((total - kept - used)) MiB" ;;
    *) cell='[N/A]' ;;
    esac
    [ "$mode" = na ] && case $field in memory.*) cell='[N/A]' ;; esac
    row="${row:+$row, }$cell"
  done
  echo "$row"
done <"$here/gpus"
