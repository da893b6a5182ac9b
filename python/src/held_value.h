// SPDX-License-Identifier: Apache-2.0
// Strings, sequences, optionals and maps on their way between Python and the library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "graft/graft_c.h"

namespace graft_python {

/// A value of the library; graft/values.py makes it of Python's objects, and takes it apart.
class HeldValue {
 public:
  explicit HeldValue(graft_value* value) : value_(value, graft_value_release) {}
  /// Strings, which stay Python's until somebody asks for the library's value.
  HeldValue(std::vector<nanobind::bytes> texts, std::vector<int64_t> shape);
  static HeldValue nothing();
  /// `dtype` 0: the array's own.
  static HeldValue tensor(const nanobind::object& array, int dtype, const nanobind::object& shape);
  static HeldValue texts(const std::vector<nanobind::bytes>& texts, const std::vector<int64_t>& shape);
  /// The strings of a result, of which those that the library has once are one object.
  static HeldValue texts_of(const graft_tensor& tensor);
  static HeldValue sequence(const std::vector<const HeldValue*>& elements);
  static HeldValue map(const HeldValue& keys, const HeldValue& values);
  static HeldValue copy(const graft_tensor& tensor);

  graft_value* get() const;
  /// The tensor that it is; throws Failure when it is none.
  graft_tensor describe() const;
  int kind() const { return texts_ ? kTensor : graft_value_kind(get()); }
  size_t size() const { return graft_value_count(get()); }
  HeldValue element(size_t index) const;
  /// (bytes of the elements, or a list of them where they are strings; the type's number; the shape).
  nanobind::tuple take() const;

 private:
  static constexpr int kTensor = 1;  // of graft_value_kind()
  struct Texts {
    std::vector<nanobind::bytes> kept;
    std::vector<graft_text> elements;
    std::vector<int64_t> shape;
  };
  graft_tensor describe_texts() const;

  mutable std::shared_ptr<graft_value> value_;
  std::shared_ptr<const Texts> texts_;  ///< null for other values
};

void bind_held_values(nanobind::module_& module);

}  // namespace graft_python
