# SPDX-License-Identifier: Apache-2.0
# Completes the command `graft` in fish: commands, options and their values, beside files. Installed as
# share/fish/vendor_completions.d/graft.fish; or `graft completion fish | source`.
function __graft_complete
  set -l line (commandline -opc) (commandline -ct)
  graft completion words -- $line[2..-1] 2>/dev/null
end
complete -c graft -a '(__graft_complete)'
