// Package data converts files to training samples: lists of tokens, each with a weight in the loss,
// and the order in which they are visited.
//
// # Words
//
// A source names files; a file has records. A record is a unit of the data, such as a JSON object. An
// [Example] is a parsed record: a text, a prompt with its completion, or a conversation. Plain text is
// divided into documents. A [Sample] holds the tokens of an example, or of a part of it that fits, and
// which of them are trained; it knows its place ([Dataset.Place]). A [Row] of a batch holds one sample, or several packed ones. A [Dataset]
// is a list of rows; a split of it is for training, validation or tests.
//
// # From files to rows
//
// [Load] does all of the following: it makes a data set from files of text or records, with the
// vocabulary and chat template of a model, and returns warnings. Its parts are for programs with other
// sources.
//
// # From files to samples
//
// [Read] streams the [Example]s of files: JSONL, JSON lists, plain text, and formats with a
// [RecordReader]. The keys of a record determine its format:
//
//	{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}], "system": "…", "tools": […]}
//	{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}], "system": "…"}
//	{"instruction": "…", "input": "…", "output": "…"}
//	{"prompt": "…", "completion": "…", "system": "…"}
//	{"text": "…"}
//
// With Pairs, records have a better and a worse answer to a prompt, which a loss compares: {"prompt": "…", "chosen":
// "…", "rejected": "…"}, see [Pairs]. They become rows of two samples ([Encoder.EncodePair], [PreparePairs]).
//
// An [Encoder] converts an [Example] to a [Sample]. It renders conversations, and prompts with
// completions, with the model's chat template; only what the assistant writes is trained, unless
// [EncoderOptions] say otherwise. If the template omits part of an answer, the example is broken;
// anything else that it omits is a [Note]. A message may have a "weight", or "train": false.
// [FormatSample] shows what is trained. [FromText] divides plain text into samples by length.
//
// # From samples to rows
//
// [Prepare] encodes all examples, on all processors, into a [Dataset] in a mapped file, which can be
// cached. Its rows have one sample each, or several after [Dataset.Packed]; a [Shuffler] gives their
// order.
//
// A token file has varints, and runs of words and weights. It is mapped, and little of it stays resident; memory
// holds the length of each sample. In a cache folder its name is a hash of its key and the options.
// Load's key includes the contents of the sources ([HashFiles], about a second per gigabyte; sizes and
// times would miss changes), the tokenizer and the template. A process writes the file under another
// name, locked, and renames it; others wait. A pending file without a lock was left by a killed
// process. Each MiB has a checksum, verified on opening.
//
// Packing is best-fit decreasing. Without it, short rows are computed by short graphs of a few lengths
// that share one workspace: the rows of a step are sorted into its batches, which changes only
// rounding. RoPE factors for long contexts depend on the longest sample of the data set, not on rows.
//
// # Broken data
//
// A fault of a record is an [*Error] with file, line and remedy, and ends reading. With a [Broken] it
// is counted, and the record is skipped.
package data
