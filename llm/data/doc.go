// Package data makes samples for training of files: lists of tokens, with the weight that predicting each has in the
// loss, and the order in which they are visited.
//
// # Words
//
// A source names files; a file has records. A record is a unit of the data, such as a JSON object; an [Example] is its
// meaning: a text, a prompt with its completion, or a conversation. Plain text is divided into documents. A [Sample] is the
// tokens of an example, or of a part of it that fits, with what is trained of them. A [Row] of a batch holds a sample, or
// several that are packed; a [Dataset] is rows, and a split of one is for training, validation or tests.
//
// # From files to rows
//
// [Load] does all of the following: it makes a data set from files of text or records, by the vocabulary and the chat
// template of a model, with warnings. Its parts serve those who have other sources.
//
// # From files to samples
//
// [Read] streams the [Example]s of files: JSONL, lists of JSON, plain text, and what a [RecordReader] reads. What a record
// is, its keys say:
//
//	{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}], "system": "…", "tools": […]}
//	{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}], "system": "…"}
//	{"instruction": "…", "input": "…", "output": "…"}
//	{"prompt": "…", "completion": "…", "system": "…"}
//	{"text": "…"}
//
// An [Encoder] makes a [Sample] of an example, by the chat template of the model where it is a
// conversation, or a prompt with its completion: only what the assistant writes is trained, unless
// [EncoderOptions] say otherwise. An example of whose answers the template leaves something out is
// broken; what else is left out is a [Note]. A message may have a "weight", or "train": false.
// [FormatSample] shows what is trained. [FromText] makes samples of plain text by its length.
//
// # From samples to rows
//
// [Prepare] encodes all examples, on all processors, into a [Dataset] that is a mapped file, and which a cache keeps. Its
// rows are one sample each, or several by [Dataset.Packed]; a [Shuffler] gives their order.
//
// A token file has varints and runs of weights. It is mapped, and little of it stays resident; memory holds the length of
// each sample. In a cache folder its name is a hash of its key and of the options. Load puts the contents of the sources
// into the key ([HashFiles], about a second a gigabyte; sizes and times would miss changes), the tokenizer and the
// template. A process writes the file under another name, locked, and renames it; others wait. A file without a lock was
// left by a killed process. Each MiB has a checksum, verified on opening.
//
// Packing is best-fit decreasing. Without it, short rows are computed by short graphs of a few lengths that share one
// workspace: the rows of a step are sorted into its batches, which changes only rounding. RoPE factors for long contexts
// depend on the longest sample of the data set, not on rows.
//
// # Broken data
//
// A fault of a record is an [*Error] with file, line and remedy, and ends the reading. With a [Broken] it is
// counted, and the record left out.
package data
