// SPDX-License-Identifier: Apache-2.0
// The tile programs that engines for a target consist of, without compiling them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace graft::kernels {

/// Programs by the name that is the hash of their text, so that equal ones are one; and who asked for each first.
struct Programs {
  struct Program {
    std::string text, origin;
  };
  std::map<std::string, Program> by_name;
  int asked = 0;  ///< for how many, before equal ones were made one
};

/// A network of networks.py; `dims` are its sizes beside the batch, as --dim takes them.
struct Network {
  std::string name, path;
  std::vector<std::string> dims;
};

/// Runs networks.py. Throws std::runtime_error when it fails.
std::vector<Network> test_networks();

/// Adds the kernels of a network at one batch size. `precision` is what `graft compile --precision` takes.
void collect_network(const Network& network, int batch, const std::string& precision, const std::string& target,
                     Programs& programs);

/// Adds the kernels of the first `most` samples of every operator, with sizes known and with sizes open.
void collect_samples(const std::string& target, int most, Programs& programs);

}  // namespace graft::kernels
