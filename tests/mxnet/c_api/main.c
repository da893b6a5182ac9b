/* SPDX-License-Identifier: Apache-2.0 */
/* Engines through MXNet's C interface, as cpp-package and Scala call it, and through its predict interface:
 *
 *   mxnet_c_api LIBGRAFT_MXNET.so optimize NET INPUT OUTPUT N C H W    a plain checkpoint: engines where
 *                                                                      MXNET_USE_GRAFT asks for them, bind, run
 *   mxnet_c_api LIBGRAFT_MXNET.so predict NET INPUT OUTPUT N C H W     a checkpoint that has engines
 *
 * NET-symbol.json and NET-0000.params; INPUT and OUTPUT hold floats. The wheel has no headers, so that what is called
 * is declared here. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Handle;
int MXLoadLib(const char* path, unsigned verbose);
const char* MXGetLastError(void);
int MXSymbolCreateFromFile(const char* path, Handle* symbol);
int MXSymbolListArguments(Handle symbol, unsigned* count, const char*** names);
int MXSymbolListAuxiliaryStates(Handle symbol, unsigned* count, const char*** names);
int MXNDArrayLoad(const char* path, unsigned* count, Handle** arrays, unsigned* name_count, const char*** names);
int MXNDArrayCreateEx(const unsigned* shape, unsigned rank, int device, int id, int delay, int type, Handle* array);
int MXNDArraySyncCopyFromCPU(Handle array, const void* data, size_t elements);
int MXNDArraySyncCopyToCPU(Handle array, void* data, size_t elements);
int MXNDArrayGetShape(Handle array, unsigned* rank, const unsigned** shape);
int MXOptimizeForBackend(Handle symbol, const char* backend, int device, Handle* made, unsigned arg_count, Handle* args,
                         unsigned aux_count, Handle* aux, unsigned option_count, const char** keys, const char** values,
                         unsigned shape_count, const char** shape_names, const int64_t* shapes,
                         const unsigned* shape_index, unsigned type_count, const char** type_names, const int* types,
                         unsigned storage_count, const char** storage_names, const int* storages, bool skip_infer,
                         int* new_arg_count, Handle** new_args, const char*** new_arg_names, int* new_aux_count,
                         Handle** new_aux, const char*** new_aux_names);
int MXExecutorBind(Handle symbol, int device, int id, unsigned count, Handle* args, Handle* gradients,
                   unsigned* requests, unsigned aux_count, Handle* aux, Handle* executor);
int MXExecutorForward(Handle executor, int is_train);
int MXExecutorOutputs(Handle executor, unsigned* count, Handle** outputs);
int MXPredCreate(const char* symbol, const void* params, int size, int device, int id, unsigned inputs,
                 const char** names, const unsigned* shape_index, const unsigned* shapes, Handle* predictor);
int MXPredSetInput(Handle predictor, const char* name, const float* data, unsigned elements);
int MXPredForward(Handle predictor);
int MXPredGetOutputShape(Handle predictor, unsigned index, unsigned** shape, unsigned* rank);
int MXPredGetOutput(Handle predictor, unsigned index, float* data, unsigned elements);

enum { kCpu = 1, kFloat = 0, kMost = 256 };

static void check(int status) {
  if (status == 0) return;
  fprintf(stderr, "%s\n", MXGetLastError());
  exit(1);
}

static char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(fprintf(stderr, "cannot read %s\n", path));
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* data = calloc(1, *size + 1);
  if (!data || fread(data, 1, *size, file) != *size) exit(fprintf(stderr, "cannot read %s\n", path));
  fclose(file);
  return data;
}

static void write_floats(const char* path, const float* data, size_t count) {
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, sizeof *data, count, file) != count || fclose(file) != 0) exit(3);
}

/* NET followed by an ending. */
static char* named(const char* net, const char* ending) {
  char* path = malloc(strlen(net) + strlen(ending) + 1);
  strcpy(path, net);
  return strcat(path, ending);
}

/* The arrays for these names, `prefix` before them in the file; NULL for one that it does not have. */
static void find(unsigned count, const char** names, const char* prefix, unsigned known, const char** known_names,
                 Handle* arrays, Handle* found) {
  for (unsigned i = 0; i < count; ++i) {
    found[i] = NULL;
    for (unsigned k = 0; k < known; ++k) {
      const size_t length = strlen(prefix);
      if (strncmp(known_names[k], prefix, length) == 0 && strcmp(known_names[k] + length, names[i]) == 0) {
        found[i] = arrays[k];
      }
    }
  }
}

/* Whether the environment asks for engines: a function of the library that is loaded. */
static int is_asked_for(const char* path) {
  void* library = dlopen(path, RTLD_LAZY);
  int (*use_at_bind)(const char**) = NULL;
  *(void**)&use_at_bind = library ? dlsym(library, "graft_mxnet_use_at_bind") : NULL;
  if (!use_at_bind) exit(fprintf(stderr, "%s\n", dlerror()));
  return use_at_bind(NULL);
}

/* Takes a plain checkpoint, puts engines into it if they are asked for, binds it and runs it. Returns how many floats
 * the output has. */
static size_t optimize(int with_engines, const char* net, const unsigned* shape, const float* input, size_t elements,
                       float** output) {
  Handle symbol, made, executor, args[kMost], aux[kMost], bound[kMost], gradients[kMost] = {NULL};
  unsigned requests[kMost] = {0};
  Handle *loaded, *new_args, *new_aux, *outputs;
  const char **names, **loaded_names, **new_arg_names, **new_aux_names;
  unsigned arg_count, aux_count, loaded_count, name_count, count;
  int new_arg_count = 0, new_aux_count = 0;
  check(MXSymbolCreateFromFile(named(net, "-symbol.json"), &symbol));
  check(MXNDArrayLoad(named(net, "-0000.params"), &loaded_count, &loaded, &name_count, &loaded_names));
  check(MXSymbolListArguments(symbol, &arg_count, &names));
  find(arg_count, names, "arg:", name_count, loaded_names, loaded, args);
  check(MXSymbolListAuxiliaryStates(symbol, &aux_count, &names));
  find(aux_count, names, "aux:", name_count, loaded_names, loaded, aux);
  const char *keys[] = {"data_names", "tune"}, *values[] = {"data", "off"}, *shape_names[] = {"data"};
  const int64_t sizes[] = {shape[0], shape[1], shape[2], shape[3]};
  const unsigned shape_index[] = {0, 4};
  made = symbol;
  if (with_engines) {
    check(MXOptimizeForBackend(symbol, "graft", kCpu, &made, arg_count, args, aux_count, aux, 2, keys, values, 1,
                               shape_names, sizes, shape_index, 0, NULL, NULL, 0, NULL, NULL, false, &new_arg_count,
                               &new_args, &new_arg_names, &new_aux_count, &new_aux, &new_aux_names));
  }
  check(MXSymbolListArguments(made, &count, &names));
  find(count, names, "arg:", name_count, loaded_names, loaded, bound);
  for (unsigned i = 0; i < count; ++i) {
    for (int k = 0; k < new_arg_count; ++k) {
      if (strcmp(names[i], new_arg_names[k]) == 0) bound[i] = new_args[k];
    }
    if (strcmp(names[i], "data") == 0) {
      check(MXNDArrayCreateEx(shape, 4, kCpu, 0, 0, kFloat, &bound[i]));
      check(MXNDArraySyncCopyFromCPU(bound[i], input, elements));
    } else if (!bound[i]) {  /* a label */
      check(MXNDArrayCreateEx(shape, 1, kCpu, 0, 0, kFloat, &bound[i]));
    }
  }
  check(MXSymbolListAuxiliaryStates(made, &aux_count, &names));
  find(aux_count, names, "aux:", name_count, loaded_names, loaded, aux);
  check(MXExecutorBind(made, kCpu, 0, count, bound, gradients, requests, aux_count, aux, &executor));
  check(MXExecutorForward(executor, 0));
  check(MXExecutorOutputs(executor, &count, &outputs));
  unsigned rank;
  const unsigned* made_shape;
  check(MXNDArrayGetShape(outputs[0], &rank, &made_shape));
  size_t made_elements = 1;
  for (unsigned i = 0; i < rank; ++i) made_elements *= made_shape[i];
  *output = malloc(made_elements * sizeof **output);
  check(MXNDArraySyncCopyToCPU(outputs[0], *output, made_elements));
  printf("%d\n", new_arg_count);
  return made_elements;
}

/* Runs a checkpoint that has engines. */
static size_t predict(const char* net, const unsigned* shape, const float* input, size_t elements, float** output) {
  size_t symbol_size, params_size;
  char *symbol = read_file(named(net, "-symbol.json"), &symbol_size);
  char *params = read_file(named(net, "-0000.params"), &params_size);
  const char* names[] = {"data"};
  const unsigned shape_index[] = {0, 4};
  Handle predictor;
  check(MXPredCreate(symbol, params, (int)params_size, kCpu, 0, 1, names, shape_index, shape, &predictor));
  check(MXPredSetInput(predictor, "data", input, (unsigned)elements));
  check(MXPredForward(predictor));
  unsigned rank, *made_shape;
  check(MXPredGetOutputShape(predictor, 0, &made_shape, &rank));
  size_t made_elements = 1;
  for (unsigned i = 0; i < rank; ++i) made_elements *= made_shape[i];
  *output = malloc(made_elements * sizeof **output);
  check(MXPredGetOutput(predictor, 0, *output, (unsigned)made_elements));
  return made_elements;
}

int main(int argc, char** argv) {
  if (argc != 10) return 2;
  unsigned shape[4];
  size_t elements = 1, bytes;
  for (int i = 0; i < 4; ++i) elements *= shape[i] = (unsigned)atoi(argv[6 + i]);
  check(MXLoadLib(argv[1], 0));
  float* input = (float*)read_file(argv[4], &bytes);
  if (bytes != elements * sizeof *input) return 2;
  float* output = NULL;
  const size_t made = strcmp(argv[2], "predict") == 0
                          ? predict(argv[3], shape, input, elements, &output)
                          : optimize(is_asked_for(argv[1]) == 1, argv[3], shape, input, elements, &output);
  write_floats(argv[5], output, made);
  return 0;
}
