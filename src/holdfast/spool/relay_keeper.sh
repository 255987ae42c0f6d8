# Keeps the relay of one agent running: a relay that is killed is started again, and its death is recorded.
# In the task's folder: sh relay_keeper.sh PYTHON RELAY. Standard output is the write end of the agent's stdin and
# descriptor 6 is `sent`. Both stay open here, so the agent's input does not end with a relay, and the next relay
# reads on at the offset that the last one left in descriptor 6.
# All of it is in braces, so that it is read whole before any of it runs: the file may be replaced meanwhile.
{
trap '' HUP INT TERM # a signal to the whole session is for the agent
# The shim says that the agent has ended. That may come when a relay runs whose pid is not in _hf_child yet:
# hence the loop looks at _hf_over again once it knows the pid.
trap '_hf_over=1; [ -z "$_hf_child" ] || kill -KILL "$_hf_child"' USR1
_hf_child= _hf_over=

# set -C: a file that exists is never overwritten, so whoever creates `relay` first has won.
set -C
_hf_stat=$$
if [ -r /proc/$$/stat ]; then read -r _hf_stat </proc/$$/stat; fi
{ printf "%s\n" "$_hf_stat" >relay; } 2>/dev/null || exit 125
set +C

_hf_deaths=0 _hf_failures=0
while [ -p stdin ] && [ -z "$_hf_over" ]; do # its name is removed when the input has to end
  "$1" -I -S "$2" &
  _hf_child=$!
  [ -z "$_hf_over" ] || kill -KILL "$_hf_child"
  wait "$_hf_child"
  _hf_exit=$?
  if [ -n "$_hf_over" ]; then wait "$_hf_child"; exit 0; fi # the trap ends the first wait early
  _hf_child=
  [ "$_hf_exit" -ne 0 ] || break # nobody reads the agent's stdin any more
  [ -p stdin ] || break
  printf 'ended %d\n' "$_hf_exit" >>relays
  _hf_deaths=$((_hf_deaths + 1))
  # A relay that is not killed but fails does so again; a few tries show it.
  [ "$_hf_exit" -gt 128 ] || _hf_failures=$((_hf_failures + 1))
  [ "$_hf_failures" -lt 3 ] || break
  [ "$_hf_deaths" -lt 10 ] || sleep 1
done
exit 0
}
