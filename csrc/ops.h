// Guarded op builders. ops_list.h names each with its parameters; a NULL arena
// (a call that failed its checks) builds nothing.
#ifndef GOGGML_OPS_H
#define GOGGML_OPS_H

#include "arena.h"

typedef goggml_arena *goggml_a;
typedef struct ggml_tensor *goggml_t;
typedef enum ggml_type goggml_type;

// Of the parameters of a custom op, the first are the library's, and the last is the number of its tasks that are taken.
enum { CUSTOM_PARAMS = 8, TASKS_TAKEN = GGML_MAX_OP_PARAMS / sizeof(int32_t) - 1 };

#define GOGGML_OP(name, params, args) goggml_tensor goggml_op_##name params;
#include "ops_list.h"
#undef GOGGML_OP

#endif
