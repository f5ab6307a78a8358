// Package run is the folder of a training run: what it holds, how a trainer runs to its end in it, and how others find its
// results.
//
// # Train in a folder
//
// [Create] takes a folder for this process, and [Train] runs the trainer with its [Folder.Options]: it resumes from the
// checkpoint, if there is one, evaluates and saves on the way, keeps the best result and the newest ones, and writes the
// figures of each step. When ctx is cancelled it saves, and the same program continues another time. The result is an
// [Outcome], in values and in words.
//
//	adapter.gguf       the result of the last save; adapter-50.gguf and so on are the newest saves
//	adapter-best.gguf  the result with the best evaluation
//	checkpoint.gguf    the state of the run; checkpoint-50.gguf and so on belong to the newest saves
//	metrics.jsonl      a Line for each step and evaluation
//	manifest.json      what the run is: a Manifest, with the hashes of what it read
//	commands.txt       when it began and continued, by which command
//
// Programs that give files other places, or have none of these, fill [Options] themselves.
//
// # Read a run
//
// [Open] reads the folder of a run, [List] the runs below a folder, whether or not a process is writing them:
// [Run.AdapterPath] is the adapter to use, [Run.Progress] how far the run is, [Run.Metrics] its history.
package run
