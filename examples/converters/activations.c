/* SPDX-License-Identifier: Apache-2.0 */
/* Converters for two operators of an extension of torch, as a shared library:
 *
 *   cc -shared -fPIC -I PREFIX/include activations.c -o libactivations.so
 *   graft compile model.pt2 --converters ./libactivations.so -o model.graft */
#include <stddef.h>
#include <stdint.h>

#include "graft/graft_converter.h"

static int32_t add(graft_conversion* c, const char* op, int32_t a, int32_t b) {
  const int32_t inputs[2] = {a, b};
  int32_t output = -1;
  graft_added_node node = {0};
  node.struct_size = sizeof node, node.op = op;
  node.inputs = inputs, node.input_count = b < 0 ? 1 : 2;
  node.outputs = &output, node.output_count = 1;
  c->add(c, &node); /* a failure stays with the conversion, and the last call gives it */
  return output;
}

static int32_t number(graft_conversion* c, float value) {
  graft_tensor tensor = {0};
  int32_t made = -1;
  tensor.struct_size = sizeof tensor, tensor.dtype = GRAFT_FLOAT32, tensor.data = &value;
  c->constant(c, &tensor, &made);
  return made;
}

/* swish(x, beta) = x * sigmoid(beta * x) */
static graft_status swish(graft_conversion* c, void* context) {
  int32_t x = -1, y = -1;
  double beta = 0;
  const graft_value_info* info = NULL;
  (void)context;
  c->tensor(c, "x", &x);
  c->real(c, "beta", &beta);
  if (c->describe(c, x, &info) == GRAFT_OK && info->dtype != GRAFT_FLOAT32) return c->refuse(c, "it is not of float32");
  y = add(c, "Mul", x, add(c, "Sigmoid", add(c, "Mul", x, number(c, (float)beta)), -1));
  return c->give(c, &y, 1);
}

/* Of the extension's own text language: see docs/OWN_OPERATORS.md. */
static const char* const kCube =
    "operator example::Cube {\n"
    "  type T: float\n"
    "  input x: T[...]\n"
    "  output y: T[...]\n"
    "  compute y over [...] { value x[...] * x[...] * x[...] }\n"
    "}\n";

static graft_status cube(graft_conversion* c, void* context) {
  int32_t x = -1, y = -1;
  graft_added_node node = {0};
  (void)context;
  c->tensor(c, "x", &x);
  node.struct_size = sizeof node, node.domain = "example", node.op = "Cube", node.definition = kCube;
  node.inputs = &x, node.input_count = 1, node.outputs = &y, node.output_count = 1;
  c->add(c, &node);
  return c->give(c, &y, 1);
}

GRAFT_API const graft_converter_list* graft_converters(void) {
  static const graft_converter rows[] = {
      {sizeof(graft_converter), "aten", "example::swish(Tensor x, float beta=1.0) -> Tensor", 0, swish, NULL, NULL},
      {sizeof(graft_converter), "aten", "example::cube(Tensor x) -> Tensor", 0, cube, NULL, NULL}};
  static const graft_converter_list list = {sizeof list, GRAFT_CONVERTER_VERSION, rows, 2};
  return &list;
}
