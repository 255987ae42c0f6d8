"""`holdfast completion SHELL`: print the completion script for a shell."""

from __future__ import annotations

import argparse

from holdfast.cli import common, output

# Each asks `holdfast complete` with the words up to the cursor, and offers the lines that it prints.
SCRIPTS = {
    "bash": """\
_holdfast() {
    local line="${COMP_LINE:0:COMP_POINT}" last before word IFS
    local -a words
    IFS=' ' read -ra words <<< "$line"
    [[ $line == *' ' ]] && words+=("")
    last=${words[${#words[@]}-1]}
    # Bash takes a colon for the end of a word, and keys have colons.
    before=${last%"${last##*:}"}
    COMPREPLY=()
    # A key is whatever others named it: it is quoted, or Bash would run what is in it.
    while IFS=$'\\t' read -r word _; do
        printf -v word %q "${word#"$before"}"
        COMPREPLY+=("$word")
    done < <(holdfast complete -- "${words[@]:1}" 2>/dev/null)
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default 2>/dev/null
}
complete -F _holdfast holdfast
""",
    "zsh": """\
#compdef holdfast
_holdfast() {
    local -a found
    local line
    for line in "${(@f)$(holdfast complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( $#found )); then _describe -t values holdfast found; else _files; fi
}
compdef _holdfast holdfast
""",
    "fish": """\
function __holdfast_complete
    set -l words (commandline -opc)
    holdfast complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c holdfast -f -a '(__holdfast_complete)'
complete -c holdfast -n 'test -z "$(__holdfast_complete)"' -F
""",
}

INSTALL_HINTS = {
    "bash": 'eval "$(holdfast completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(holdfast completion zsh)" in ~/.zshrc, after compinit',
    "fish": "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
}


def parser(name: str) -> argparse.ArgumentParser:
    """Which shell."""
    parser = common.parser(
        name, "Print the script that completes commands, options, sessions and tasks in a shell."
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="; ".join(INSTALL_HINTS.values()))
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    output.styled(SCRIPTS[options.shell].removesuffix("\n"))
    return 0
