# Runs one agent with its stdio on disk, and records how it ended.
# In the task's folder: sh shim.sh CWD MV KEEPER PYTHON RELAY COMMAND…; no KEEPER: the agent is not spoken to.
# All of it is in braces, so that it is read whole before any of it runs: the file may be replaced meanwhile.
# What is assigned to a name that the environment has would reach the agent: hence the odd names.
{
trap : HUP INT TERM # not '': the agent would inherit that

# set -C: a file that is there is never written over, so whoever creates `shim` or `agent` first has won.
_hf_record='
set -C
_hf_stat=$$
if [ -r /proc/$$/stat ]; then read -r _hf_stat </proc/$$/stat; fi
{ printf "%s\n" "$_hf_stat" >"$_hf_file"; } 2>/dev/null || exit 125
unset _hf_stat _hf_file
'
# A shim of a folder that was put away since comes too late: it must not run into files that nobody reads.
if [ -e /dev/fd/1 ] && ! [ /dev/fd/1 -ef stdout ]; then exit 125; fi
_hf_file=shim
eval "$_hf_record"
_hf_cwd=$1 _hf_mv=$2 _hf_script=$3 _hf_python=$4 _hf_program=$5 _hf_keeper=
shift 5
exec 3>&2 2>/dev/null # a shell says "Killed" of its children; that is not the agent's

if [ -n "$_hf_script" ] && [ -p stdin ]; then
  # Both ends without waiting for the other: whichever of relay and agent fails to start, the other is not stuck.
  exec 9<>stdin 8<stdin 7>|stdin 9<&-
  /bin/sh "$_hf_script" "$_hf_python" "$_hf_program" </dev/null 6<sent >&7 7>&- 8<&- 3>&- &
  _hf_keeper=$!
  exec 7>&-
else
  # An agent that does not listen reads what was sent before it started, which ends like any file.
  if [ -z "$_hf_script" ] && [ -s sent ]; then exec 8<sent; else exec 8</dev/null; fi
fi

# In the foreground: what a shell without job control puts in the background ignores SIGINT.
# It takes its stdin and stderr itself: dash would redirect its own while it waits, and say "Killed" there.
/bin/sh -c "_hf_file=agent$_hf_record"'exec <&8 8<&- 2>&3 3>&-
cd -- "$1" || exit 127
shift
unset OLDPWD
exec "$@"' holdfast "$_hf_cwd" "$@"
_hf_exit=$?

if [ -n "$_hf_keeper" ]; then
  # It may be gone and its pid another's by now; only ours has us as its parent. It may also be stopped.
  if [ -d /proc/$$ ]; then
    read -r _hf_stat <"/proc/$_hf_keeper/stat" || _hf_stat=
    case ${_hf_stat##*") "} in
      ?" $$ "*) kill -USR1 "$_hf_keeper"; kill -CONT "$_hf_keeper" ;;
    esac
  else
    kill -USR1 "$_hf_keeper"
    kill -CONT "$_hf_keeper"
  fi
  # A keeper that was killed has ended the agent's input before its time; that is told behind the exit status.
  wait "$_hf_keeper" || _hf_exit="$_hf_exit $?"
fi

# Over bytes that are there already, and a rename: a full disk does not stop this.
printf '%-15s\n' "$_hf_exit" 1<>exit.part && "$_hf_mv" exit.part exit
exit 0
}
