// Package rpc serves devices of this machine to programs on others, which compute on them as on their own. It uses what
// package ggml exports, and no C. The client, which is ggml's own, is in package ggml: [ggml.AddRPCServer].
//
// # Safety
//
// An op of a client is built anew by the method of [ggml.Context] that builds such an op, and computed only
// if its type, shape, strides, parameters and operands are what the client says. So the checks of the ops are the checks
// of the server; an op that is decoded wrongly is refused, and an op without a decoder cannot be had. Besides:
//
//   - A client knows its buffers by numbers and addresses that the server makes up. A tensor lies within a buffer of its
//     client, a view within its source.
//   - Operands precede their readers, so a graph ends; its nodes are numbered, so its size is bounded.
//   - A result may overlap an operand only where ggml's allocator allows it: ops that sort or look up would
//     otherwise change what decides where they write.
//   - Row numbers are values, and are read before use. A graph is computed in stages: a new one begins before a look-up
//     whose row numbers an op of the present stage may have written, unless that op (argsort, top_k, argmax) stays below
//     the number of rows.
//   - Memory is charged to a pool before it is allocated: data to the pool of its device, the rest to
//     the pool of the host. Dropped objects are collected at 8 MiB. A graph has one context for all stages; freeing a
//     buffer drops the graphs in it; building ends when the client has gone.
//
// A goroutine serves each client, with buffers, graphs and backends of its own. internal/fuzz/rpc sends changed messages.
package rpc
