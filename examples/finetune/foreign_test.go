package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
)

// trainFlags returns the flags of train by name and alias.
func trainFlags(line *commandLine) map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for _, n := range line.parser.Model.Leaves(false) {
		if n.Name != "train" {
			continue
		}
		for _, f := range n.Flags {
			for _, name := range append([]string{f.Name}, f.Aliases...) {
				flags[name] = f
			}
		}
	}
	return flags
}

// tried are values that many foreign flags accept.
var tried = []string{"true", "false", "none", "3", "0.5", "sft", "lora", "normal", "train", "valid", "auto", "keep_start", "bfd", "steps", "adamw", "cosine", "causal_lm", "q_proj"}

// No foreign flag has the name of a flag here. Each sets existing flags to valid values, or has a help text if
// it sets none. It rejects or reports what it does not do.
func TestForeignFlags(t *testing.T) {
	line := newCommandLine(t)
	flags := trainFlags(line)
	seen := map[string]bool{}
	for _, f := range new(trainCommand).Foreign() {
		accepts := 0
		for _, name := range f.Names {
			require.False(t, seen[name] || flags[name] != nil, "--%s has two meanings", name)
			require.Equal(t, strings.ToLower(strings.ReplaceAll(name, "_", "-")), name)
			seen[name] = true
		}
		if f.Flag != "" {
			require.NotNil(t, flags[f.Flag], "--%s stands for --%s, which there is not", f.Names[0], f.Flag)
			require.Equal(t, flags[f.Flag].Name, f.Flag)
		} else if !strings.Contains(f.Names[0], ".") && !slices.Contains([]string{"hf-dataset", "lr-schedule"}, f.Names[0]) {
			require.Regexp(t, `^\S.*\.$`, f.Help, f.Names[0])
		}
		for _, value := range tried {
			meaning, err := f.Read(cli.Value{List: []string{value}})
			if err != nil {
				require.Empty(t, meaning, f.Names[0])
				require.Greater(t, len(err.Error()), 15, f.Names[0])
				continue
			}
			accepts++
			for _, s := range meaning.Settings {
				require.NotNil(t, flags[s.Flag], "%s sets --%s", f.Names[0], s.Flag)
			}
		}
		if f.Flag != "" && f.Bool {
			require.Positive(t, accepts, f.Names[0])
		}
	}
	require.Greater(t, len(seen), 100)
}

// Values on another trainer's command line reach the fields of this one.
func TestForeignMeanings(t *testing.T) {
	need.Time(t, "tries the flags of other programs")
	for _, c := range []struct {
		args string
		want func(p *trainCommand) any
		is   any
	}{
		{"--batch-size 4", func(p *trainCommand) any { return p.Batch }, 4},
		{"--per_device_train_batch_size 4", func(p *trainCommand) any { return p.Batch }, 4},
		{"--gradient_accumulation_steps 8", func(p *trainCommand) any { return p.GradAcc }, 8},
		{"--grad-accumulation-steps 8", func(p *trainCommand) any { return p.GradAcc }, 8},
		{"--num-train-epochs 3.0", func(p *trainCommand) any { return p.Epochs }, 3},
		{"--num-epochs 2", func(p *trainCommand) any { return p.Epochs }, 2},
		{"--max_steps -1", func(p *trainCommand) any { return p.Iter }, -1},
		{"--max_steps 0", func(p *trainCommand) any { return p.Iter }, -1},
		{"--max_steps 60", func(p *trainCommand) any { return p.Iter }, 60},
		{"--iters 600", func(p *trainCommand) any { return p.Iter }, 600},
		{"--lr 1e-5", func(p *trainCommand) any { return p.Rate }, 1e-5},
		{"--lr_scheduler_type constant --warmup_steps 5", func(p *trainCommand) any { return p.Schedule }, "constant-at-once"},
		{"--lr_scheduler_type constant_with_warmup", func(p *trainCommand) any { return p.Schedule }, "constant-from-0"},
		{"--warmup_ratio 0.1", func(p *trainCommand) any { return p.WarmupRatio }, 0.1},
		{"--warmup_steps 5", func(p *trainCommand) any { return p.Warmup }, 5},
		{"--weight_decay 0.01", func(p *trainCommand) any { return p.Decay }, 0.01},
		{"--max_grad_norm 0.3", func(p *trainCommand) any { return p.Clip }, 0.3},
		{"--adam_epsilon 1e-6", func(p *trainCommand) any { return p.Epsilon }, 1e-6},
		{"--random_state 3407 --seed 3407", func(p *trainCommand) any { return p.Seed }, int64(3407)},
		{"--alpha 16", func(p *trainCommand) any { return *p.Alpha }, float32(16)},
		{"--lora-rank 8", func(p *trainCommand) any { return p.R }, 8},
		{"--r 64", func(p *trainCommand) any { return p.R }, 64},
		{"--lora_target all", func(p *trainCommand) any { return p.Targets }, []string{"all-linear"}},
		{"--lora_target_modules q_proj v_proj --packing", func(p *trainCommand) any { return p.Targets }, []string{"q_proj", "v_proj"}},
		{"--target-modules q_proj v_proj", func(p *trainCommand) any { return p.Targets }, []string{"q_proj", "v_proj"}},
		{"--num-layers -1", func(p *trainCommand) any { return p.LastLayers }, -1},
		{"--use_rslora", func(p *trainCommand) any { return p.RSLoRA }, true},
		{"--neftune-noise-alpha 5", func(p *trainCommand) any { return p.NEFTune }, float32(5)},
		{"--cutoff_len 1024", func(p *trainCommand) any { return p.Ctx }, 1024},
		{"--max_seq_length 512", func(p *trainCommand) any { return p.Ctx }, 512},
		{"--auto_find_batch_size", func(p *trainCommand) any { return p.Fit }, cli.Size("auto")},
		{"--auto_find_batch_size False", func(p *trainCommand) any { return p.Fit }, cli.Size("")},
		{"--gradient-checkpointing", func(p *trainCommand) any { return p.Checkpointing }, true},
		{"--use_gradient_checkpointing unsloth", func(p *trainCommand) any { return p.Checkpointing }, true},
		{"--use_gradient_checkpointing False", func(p *trainCommand) any { return p.Checkpointing }, false},
		{"--packing True --seed 1", func(p *trainCommand) any { return p.Packing }, true},
		{"--packing false", func(p *trainCommand) any { return p.Packing }, false},
		{"--bf16", func(p *trainCommand) any { return p.ComputeType }, "bf16"},
		{"--bf16 false", func(p *trainCommand) any { return p.ComputeType }, "auto"},
		{"--fp16 True", func(p *trainCommand) any { return p.ComputeType }, "f16"},
		{"--dtype None", func(p *trainCommand) any { return p.ComputeType }, "auto"},
		{"--dataset a.jsonl,b.jsonl", func(p *trainCommand) any { return p.TrainData }, []string{"a.jsonl", "b.jsonl"}},
		{"--dataset_name a.jsonl", func(p *trainCommand) any { return p.TrainData }, []string{"a.jsonl"}},
		{"--training-mode dpo", func(p *trainCommand) any { return p.Loss }, "dpo"},
		{"--training-mode dpo --dpo-loss-type sigmoid", func(p *trainCommand) any { return p.Loss }, "sigmoid"},
		{"--stage sft", func(p *trainCommand) any { return p.Loss }, crossEntropy},
		{"--stage dpo --pref_beta 0.2", func(p *trainCommand) any { return []any{p.Loss, p.Beta} }, []any{"dpo", 0.2}},
		{"--pref_loss orpo --stage dpo", func(p *trainCommand) any { return p.Loss }, "orpo"},
		{"train --stage dpo -- ", func(p *trainCommand) any { return p.Loss }, "dpo"},
		{"--stage kto --kto_chosen_weight 2", func(p *trainCommand) any { return []any{p.Loss, p.Desirable} }, []any{"kto", 2.0}},
		{"--metric_for_best_model eval_rewards/accuracies --greater_is_better true", func(p *trainCommand) any { return p.BestBy }, "accuracy"},
		{"--val_size 0.1", func(p *trainCommand) any { return p.ValidSplit }, 0.1},
		{"--max_samples 1000", func(p *trainCommand) any { return p.MaxSamples }, 1000},
		{"--mask-prompt", func(p *trainCommand) any { return p.TrainOn }, "last"},
		{"--assistant_only_loss false", func(p *trainCommand) any { return p.TrainOn }, "all"},
		{"--dataset_text_field body", func(p *trainCommand) any { return p.Keys }, []string{"text=body"}},
		{"--adapter-path adapters", func(p *trainCommand) any { return p.RunDir }, "adapters"},
		{"--resume-adapter-file a", func(p *trainCommand) any { return p.LoRAIn }, "a"},
		{"--save_steps 500 --save_total_limit 2", func(p *trainCommand) any { return []int{p.SaveEvery, p.KeepLast} }, []int{500, 2}},
		{"--eval_steps 100 --eval_strategy steps", func(p *trainCommand) any { return p.ValidEvery }, 100},
		{"--val-batches 25", func(p *trainCommand) any { return *p.ValidBatches }, 25},
		{"--loraplus_lr_ratio 16.0", func(p *trainCommand) any { return p.LoRAPlus }, 16.0},
		{"--train --do_train --stage sft --finetuning_type lora --fine-tune-type lora --use_peft --bias none --optim adamw_torch --report_to none --logging_steps 1 --plot_loss --push_to_hub false",
			func(p *trainCommand) any { return p.R }, 16},
	} {
		line := newCommandLine(t)
		_, err := line.parse(append([]string{"--model-name-or-path", "m"}, strings.Fields(c.args)...)...)
		require.NoError(t, err, c.args)
		require.Equal(t, "m", line.program.Train.ModelBase)
		require.Equal(t, c.is, c.want(&line.program.Train), c.args)
	}
}

// A flag that has another meaning here, or none, is rejected under the name that the user wrote.
func TestForeignFaults(t *testing.T) {
	for args, want := range map[string]string{
		"--stage pt":                       "--stage pt: plain text needs no stage: leave it out, and give --train-data a .txt file or records with a text",
		"--stage ppo":                      "--stage ppo: reward models and reinforcement are not available; --loss dpo (stage dpo) prefers answers of pairs, and --loss kto (stage kto) judges single ones",
		"--stage all":                      "--stage all: --loss has no value with this meaning",
		"--stage":                          "--stage: its value is missing",
		"--finetuning_type full":           "--finetuning-type full: only LoRA is available: quantised weights cannot be trained, and llama.cpp's adapter files have no room for DoRA's magnitudes",
		"--train false":                    "--train false: this command always trains an adapter, and the model stays as it is",
		"--test":                           "--test true: finetune eval --data FILE measures held-out data, without and with the adapter",
		"--num_train_epochs 0.5":           "--num-train-epochs 0.5: --epochs takes a whole number; --adam-iter (--max-steps) sets the number of steps",
		"--val_size 100":                   "--val-size 100: this is a number of samples; give --valid-split a fraction, such as 0.05",
		"--lr_scheduler_type polynomial":   "--lr-scheduler-type polynomial: --schedule has no value with this meaning",
		"--optim sgd":                      "--optim sgd: the only optimiser is AdamW; with --adam-decay 0, the default, it is Adam",
		"--report_to wandb":                "--report-to wandb: metrics are not sent to a service; --run-dir has metrics.jsonl and the loss curve, and --metrics and --loss-curve write them elsewhere",
		"--quantization q4_k_m q8_0":       "--quantization q4_k_m q8_0: the adapter is in --run-dir; finetune merge --model-out FILE --type TYPE merges it into the base model",
		"--random_state 1 --seed 2":        "--random-state 1 and --seed 2 are one flag, --seed; leave one out",
		"--lr 1e-4 --learning_rate 2e-4":   "--lr 1e-4 and --learning-rate 2e-4 are one flag, --adam-alpha; leave one out",
		"--dataset_train_split validation": "--dataset-train-split validation: training reads the train split of a folder; name another file with --train-data",
	} {
		_, err := newCommandLine(t).parse(append([]string{"--model-base=m"}, strings.Fields(args)...)...)
		require.EqualError(t, err, want)
	}
	_, err := newCommandLine(t).parse("--model-base=m", "--lr", "1e-4", "--lr", "2e-4")
	require.NoError(t, err, "of one name the last counts")
}

// The error for an unknown flag suggests flags of the same meaning.
func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{
		"batchsize": "--batch", "learningrate": "--adam-alpha", "learn-rate": "--adam-alpha", "lr-rate": "--adam-alpha", "epoch": "--epochs",
		"max-step": "--adam-iter", "per-device-batch-size": "--batch", "seq-length": "--ctx", "max-tokens-per-sample": "--ctx", "rank-wqq": "--rank-wq",
		"lora-rnak": "--lora-r", "gpu": "--device", "jinja-template": "--chat-template", "validation-file": "--valid-data", "early-stopping": "--min-delta or --patience",
	} {
		_, err := newCommandLine(t).parse("--model-base=m", "--"+name)
		require.EqualError(t, err, fmt.Sprintf("unknown flag --%s; did you mean %s?", name, want), name)
	}
	_, err := newCommandLine(t).parse("--model-base=m", "--frobnicate")
	require.EqualError(t, err, "unknown flag --frobnicate; --help-all lists all")
}

// Files of mlx-lm, LLaMA-Factory and Unsloth are read; all wrong keys are reported at once.
func TestForeignFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	read := func(text string) (*trainCommand, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		line := newCommandLine(t)
		_, err := line.parse("--config", path)
		return &line.program.Train, err
	}
	p := need.Value(read("model: m\ntrain: true\nfine_tune_type: lora\noptimizer: adamw\noptimizer_config:\n  adamw:\n    betas: [0.8, 0.98]\n    eps: 1e-6\n    weight_decay: 0.05\ndata: chats\nseed: 0\nnum_layers: -1\nbatch_size: 4\niters: 1000\nval_batches: 25\n" +
		"steps_per_report: 10\nsteps_per_eval: 200\nresume_adapter_file: null\nadapter_path: adapters\nsave_every: 100\ntest: false\ntest_batches: 100\nmax_seq_length: 2048\ngrad_checkpoint: false\n" +
		"lora_parameters:\n  keys: [\"self_attn.q_proj\", \"self_attn.v_proj\"]\n  rank: 8\n  scale: 20.0\n  dropout: 0.1\nlr_schedule:\n  name: cosine_decay\n  warmup: 100\n  warmup_init: 0\n  arguments: [1e-5, 900, 1e-7]\nmask_prompt: true\nprompt_feature: \"question\"\ncompletion_feature: \"response\"\n"))(t)
	require.Equal(t, "m [chats] 4 1000 25 adapters 2048 [q_proj v_proj] 8 20 0.1 1e-05 900 1e-07 100 last [prompt=question completion=response] 0.8 0.98 1e-06 0.05 true false", fmt.Sprint(p.ModelBase, " ", p.TrainData, " ", p.Batch, " ", p.Iter, " ", *p.ValidBatches, " ", p.RunDir, " ",
		p.Ctx, " ", p.Targets, " ", p.R, " ", *p.Scale, " ", p.Dropout, " ", p.Rate, " ", p.CosDecaySteps, " ", p.MinRate, " ", p.Warmup, " ", p.TrainOn, " ", p.Keys, " ", p.Beta1, " ", p.Beta2, " ", p.Epsilon, " ", p.Decay, " ", p.LoRAIn == "", " ", p.Checkpointing))

	p = need.Value(read("### model\nmodel_name_or_path: m\ntrust_remote_code: true\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\nlora_target: all\ndataset: a.jsonl,b.jsonl\ntemplate: llama3\ncutoff_len: 2048\nmax_samples: 1000\noverwrite_cache: true\npreprocessing_num_workers: 16\n" +
		"output_dir: saves\nlogging_steps: 10\nsave_steps: 500\nplot_loss: true\noverwrite_output_dir: true\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\nlr_scheduler_type: cosine\nwarmup_ratio: 0.1\nbf16: true\nddp_timeout: 180000000\nval_size: 0.1\nper_device_eval_batch_size: 1\neval_strategy: steps\neval_steps: 500\nresume_from_checkpoint: null\n"))(t)
	require.Equal(t, "m [a.jsonl b.jsonl] llama3 1000 saves true 1 8 0.0001 3 0.1 bf16 0.1 500", fmt.Sprint(p.ModelBase, " ", p.TrainData, " ", p.Template, " ", p.MaxSamples, " ", p.RunDir, " ", p.Overwrite, " ", p.Batch, " ", p.GradAcc, " ", p.Rate, " ", p.Epochs, " ", p.WarmupRatio, " ", p.ComputeType, " ", p.ValidSplit, " ", p.ValidEvery))

	p = need.Value(read("model: m\ndata:\n  dataset: a.jsonl\n  format_type: auto\ntraining:\n  training_type: lora\n  max_seq_length: 512\n  num_epochs: 3\n  batch_size: 2\n  gradient_checkpointing: true\nlora:\n  lora_r: 64\n  use_loftq: false\nlogging:\n  wandb_project: null\n"))(t)
	require.Equal(t, "m [a.jsonl] 512 3 2 true 64", fmt.Sprint(p.ModelBase, " ", p.TrainData, " ", p.Ctx, " ", p.Epochs, " ", p.Batch, " ", p.Checkpointing, " ", p.R))

	for text, want := range map[string]string{
		"model: m\nfine_tune_type: dora\niterations: 3\nlora_parameters: {rnak: 3}\nseed: x\n": "--config: 4 keys are wrong:\n" +
			"  FILE:2: fine_tune_type dora: only LoRA is available: quantised weights cannot be trained, and llama.cpp's adapter files have no room for DoRA's magnitudes\n" +
			"  FILE:3: there is no flag --iterations; did you mean --adam-iter?\n" +
			"  FILE:4: there is no flag --lora-parameters.rnak; did you mean --lora-r?\n" +
			"  FILE:5: expected a valid 64 bit int but got \"x\"",
		"hf_dataset:\n  name: billsum\n": "--config: FILE:1: hf_dataset: nothing is downloaded: fetch the data set's Parquet or JSONL files, and name them with --train-data; --key maps the names of its columns",
		"lr_schedule: {name: step_decay, arguments: [1e-5]}\n": "--config: FILE:1: lr_schedule: expected cosine_decay with [rate, steps, last rate] or linear_schedule with [rate, last rate, steps]; " +
			"or give --schedule, --adam-alpha, --adam-min-alpha, --cos-decay-steps and --warmup instead",
		"learning_rate: 1e-4\nlr_schedule: {name: cosine_decay, arguments: [1e-5, 10]}\n": "--config: FILE:2: lr_schedule is given twice: line 1 gives it as learning_rate",
		"no-show-sample: true\n": "--config: FILE:1: there is no flag --no-show-sample; did you mean --show-sample?",
	} {
		_, err := read(text)
		require.EqualError(t, err, strings.ReplaceAll(want, "FILE", path))
	}
}
