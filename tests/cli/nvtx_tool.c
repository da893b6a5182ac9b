/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler for the test of ranges, as NVTX loads one: it writes each range that begins and ends to $RANGES. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*function)(void);
struct callbacks {
  size_t struct_size;
  int (*get_module_table)(int32_t module, function*** table, unsigned* size);
};

static FILE* file;

static int push(const char* name) { return fprintf(file, "+%s\n", name); }
static int pop(void) { return fprintf(file, "-\n"); }

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void* (*get_table)(uint32_t)) {
  const struct callbacks* all = get_table(1);
  function** table = NULL;
  unsigned size = 0;
  if (getenv("REFUSES") || !all || all->struct_size < sizeof *all) return 0;
  for (int module = 1; module <= 6; ++module) {
    if (!all->get_module_table(module, &table, &size) || table[size] != NULL) return 0;
  }
  if (all->get_module_table(7, &table, &size)) return 0;
  all->get_module_table(1, &table, &size);
  file = fopen(getenv("RANGES"), "w");
  if (size < 16 || !file) return 0;
  setlinebuf(file);
  *table[9] = (function)push;
  *table[11] = (function)pop;
  return 1;
}
