// Package data makes samples for training of files: lists of tokens, with the weight that predicting each has in the
// loss, and the order in which they are visited.
//
// # From files to samples
//
// [Read] streams the [Example]s of files: JSONL, lists of JSON, plain text, and what a [RecordReader] reads. What a record
// is, its keys say:
//
//	{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}], "tools": […]}
//	{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}], "system": "…"}
//	{"instruction": "…", "input": "…", "output": "…"}
//	{"prompt": "…", "completion": "…"}
//	{"text": "…"}
//
// An [Encoder] makes a [Sample] of an example, by the chat template of the model where it is a conversation: only what the
// assistant writes is trained, unless [EncoderOptions] say otherwise. A message may have a "weight", or "train": false.
// [FormatSample] shows what is trained. [FromText] makes samples of plain text by its length.
//
// # From samples to rows
//
// [Prepare] encodes all examples, on all processors, into a [Dataset] that is a mapped file, and which a cache keeps. Its
// rows are one sample each, or several by [Dataset.Packed]; a [Sampler] gives their order.
//
// # Broken data
//
// What is wrong with a record is an [*Error] with file, line and remedy, which ends the reading. With a [Broken] it is
// counted, and the record left out.
package data
