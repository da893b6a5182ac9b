// SPDX-License-Identifier: Apache-2.0
// The tensors of a run from the command line: inputs from files or a seed, results to files or against a reference.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/compare.h"
#include "command_line.h"
#include "comparison_report.h"
#include "device/device.h"
#include "npy.h"
#include "runtime/session.h"

namespace graft {

/// How `run`, `bench` and `inspect` come by their inputs.
class InputOptions {
 public:
  void add_to(Command command);
  /// Lets inputs be strings and other values; then hold() is called before each run.
  void take_values() { takes_values_ = true; }
  /// One tensor per input of the engine, in its order. Types, shapes and memory are checked before anything is read
  /// or made up: throws invalid_argument or out_of_memory naming file, input and remedy.
  std::vector<TensorData> read(const Engine& engine) const;
  /// What was said of inputs, checked in the same way without reading or making up any elements; the sizes
  /// that --size and files settle.
  Bindings check(const Engine& engine) const;
  /// Gives the session the strings, sequences and other values that files held, and the inputs what stands for them.
  /// Before each run, whose results are there until the next one.
  void hold(Session& session, std::vector<TensorData>& inputs) const;
  /// The files that were named.
  std::vector<std::string> files() const;

 private:
  std::vector<PendingTensor> open_files(const Engine& engine) const;
  std::vector<PendingTensor> open_all(const Engine& engine) const;
  uint64_t seed() const;
  PendingTensor random_input(const Engine& engine, size_t number) const;

  std::vector<std::string> inputs_;  ///< FILE.npz, FILE.npy or NAME=FILE.npy
  std::vector<std::string> sizes_;   ///< batch=4
  std::string seed_;  ///< of random inputs; empty: the process's own (GRAFT_SEED)
  mutable Bindings bindings_, said_;  ///< of a run; those of them that --size and files settle
  struct Held {
    bool is_text = false;  ///< a tensor of strings, each of which has a handle
    DynamicValue value;
  };
  mutable std::map<size_t, Held> held_;  ///< by input: what is no tensor of numbers
  bool takes_values_ = false;
};

/// Views on tensors, for Session::run.
std::vector<BufferView> views_of(std::vector<TensorData>& tensors);

/// Results of a run in memory of their own, allocated when the session asks.
class OutputBuffers {
 public:
  explicit OutputBuffers(const Engine& engine);
  /// Leaves only the outputs of these names in tensors(), in this order. Throws invalid_argument naming what there is.
  void select(const std::vector<std::string>& names);
  /// Runs; throws what the status says.
  void run(Session& session, std::vector<TensorData>& inputs);
  NamedTensors tensors() const;
  size_t count() const { return selected_.size(); }
  /// Whether strings or values that are no tensors are among them, which tensors() leaves out.
  bool has_values() const;
  /// All of them, as the session that ran has them.
  std::vector<std::pair<std::string, DynamicValue>> values(const Session& session) const;

 private:
  static void* allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);
  std::vector<std::string> names_;
  std::vector<std::string> handles_;  ///< see EngineTensor
  std::vector<size_t> selected_;
  std::vector<TensorData> results_;
  std::vector<BufferView> views_;
};

/// Inputs and outputs in the memory of an engine's device, so that a run copies nothing to or from the host.
class DeviceTensors {
 public:
  /// Copies the inputs there; the engine runs on a device and outlives this. Throws out_of_memory.
  DeviceTensors(const LoadedEngine& engine, std::vector<TensorData>& inputs);
  ~DeviceTensors();
  DeviceTensors(const DeviceTensors&) = delete;
  DeviceTensors& operator=(const DeviceTensors&) = delete;
  /// Runs and waits; throws what the status says.
  void run(Session& session);
  /// Milliseconds of copying the inputs there, and the outputs of the last run back: the mean of so many times.
  double time_uploads(const std::vector<TensorData>& inputs, int repetitions);
  double time_downloads(int repetitions);

 private:
  std::unique_ptr<DeviceStream> stream_;
  std::vector<BufferView> inputs_, outputs_;
};

/// Throws invalid_argument unless the path ends like a file for `count` tensors: .npz, or .npy for one; `-` is
/// standard output, in the form of .npz.
void check_path_for_tensors(const std::string& path, size_t count);
/// Writes tensors into such a file.
void write_tensors(const std::string& path, const NamedTensors& tensors);

/// How far results may be from a reference, as given; the rest is the default of an element type.
struct ToleranceOptions {
  ToleranceChoice choice;
  void add_to(Command command);
};

/// The tensor of that name of a reference, which is expected to have this type; undefined when there is none.
using FindTensor = std::function<PendingTensor(const std::string& name, DType type)>;
/// The tensors of an .npz file, or that of an .npy file for a single result.
FindTensor open_reference(const std::string& path, size_t results);
/// Tensors in memory.
FindTensor reference_of(NamedTensors tensors);
/// Compares results with a reference, one by one (base/compare.h).
std::vector<ComparedTensor> compare_tensors(const NamedTensors& results, const FindTensor& reference,
                                            const ToleranceOptions& tolerance);

/// Runs the model in ONNX Runtime, through a Python that has it. Throws a device error with Python's own words.
FindTensor run_onnxruntime(const std::string& model, const NamedTensors& inputs);

}  // namespace graft
