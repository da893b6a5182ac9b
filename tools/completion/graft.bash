# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completes the command `graft` in bash: commands, options and their values, otherwise files. Installed as
# share/bash-completion/completions/graft; or `eval "$(graft completion bash)"`.
_graft() {
  mapfile -t COMPREPLY < <("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _graft graft
