// Everything that the Go files of package ggml see of C.
#ifndef GOGGML_H
#define GOGGML_H

#include <stdlib.h>

#include "guard.h"
#include "arena.h"
#include "ops.h"
#include "compose.h"
#include "rope.h"
#include "precision.h"
#include "types.h"
#include "graph.h"
#include "layout.h"
#include "backward.h"
#include "backend.h"
#include "gguf_io.h"
#include "opt.h"
#include "elements.h"
#include "tiled.h"
#include "lowrank.h"
#include "stream.h"
#include "adamw.h"
#include "softmax.h"
#include "attention.h"
#include "custom.h"
#include "callbacks.h"
#include "threads.h"
#include "worker.h"
#include "team.h"
#include "compare.h"
#include "async.h"
#include "buffers.h"
#include "plugin.h"
#include "sources.h"
#include "meta.h"

#endif
