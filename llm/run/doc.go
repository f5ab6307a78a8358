// Package run keeps a training run in a folder: it defines the folder's files, trains in it to the end, and reads its
// results.
//
// # Train in a folder
//
// [Create] locks a folder for this process, and [Train] runs the trainer with [Folder.Options]: it resumes from the
// checkpoint if there is one, evaluates and saves periodically, keeps the best result and the newest ones, and writes
// metrics of each step. When ctx is cancelled it saves, and running the same program again resumes. The result is an
// [Outcome].
//
//	adapter.gguf       the result of the last save; adapter-50.gguf and so on are the newest saves
//	adapter-best.gguf  the result with the best evaluation
//	checkpoint.gguf    the state of the run; checkpoint-50.gguf and so on belong to the newest saves
//	metrics.jsonl      a Line per step and per evaluation
//	manifest.json      a Manifest: what the run is, with hashes of its inputs
//	commands.txt       when and by which commands it was started and resumed
//
// Programs that place files elsewhere, or omit some, fill [Options] themselves.
//
// # Read a run
//
// [Open] reads the folder of a run and [List] the runs below a folder, also while a process writes them.
// [Run.AdapterPath] is the adapter to use, [Run.Progress] the progress, and [Run.Metrics] the history.
package run
