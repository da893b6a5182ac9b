# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completes the command `graft` in bash: commands and options as its own help lists them, otherwise files. Installed as
# share/bash-completion/completions/graft; or `source` it.
_graft() {
  local program=$1 word=$2 words
  COMPREPLY=()
  if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then
    words=$("$program" --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z, ]*[a-z]\)  .*/\1/p' | tr -d ,)
  elif [[ $word == -* ]]; then
    words=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE '^  -[-,a-zA-Z0-9]+' | tr , ' ')
  fi
  mapfile -t COMPREPLY < <(compgen -W "${words:-}" -- "$word")
}
complete -o default -F _graft graft
