package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/train"
)

// Foreign returns flags of mlx-lm, TRL, LLaMA-Factory and Unsloth, and keys of their files, that are more than
// other names of flags of train. Other names are aliases of the fields.
func (p *trainCommand) Foreign() []cli.Foreign {
	return slices.Concat(foreignMethod, foreignModel, foreignData, foreignOptimizer, foreignAdapter, foreignRun, foreignRefused)
}

// The task: training, of an adapter, on conversations.
var foreignMethod = []cli.Foreign{
	{Names: words("train do-train use-peft"), Bool: true, Help: "True only: this trains an adapter.",
		Read: only("this command always trains an adapter, and the model stays as it is", "true")},
	{Names: words("stage"), Flag: "loss", Help: "sft, dpo or kto.", Read: stage},
	{Names: words("training-mode"), Flag: "loss", Read: method(map[string]string{"normal": crossEntropy, "sft": crossEntropy, "dpo": "dpo", "orpo": "orpo"})},
	{Names: words("fine-tune-type finetuning-type training-type"), Help: "lora only: on a quantised base it is QLoRA.",
		Read: only("only LoRA is available: quantised weights cannot be trained, and llama.cpp's adapter files have no room for DoRA's magnitudes", "lora")},
	{Names: words("test do-predict"), Bool: true, Help: "False only: finetune eval measures.",
		Read: only("finetune eval --data FILE measures held-out data, without and with the adapter", "false")},
	{Names: words("do-eval load-best-model-at-end eval-on-start"), Bool: true, Help: "Always so if there is held-out data.", Read: accepted},
}

var foreignModel = []cli.Foreign{
	{Names: words("load-in-4bit load-in-8bit load-in-16bit"), Bool: true, Help: "The base model keeps the type of its file.",
		Read: unlessFalse("the base model keeps the type of its file; a Q4_K or Q8_0 file takes less memory")},
	{Names: words("quantization-bit quantization-method quantization-type bnb-4bit-compute-dtype bnb-4bit-quant-type"), Help: "The base model keeps the type of its file.",
		Read: changesNothing("the base model keeps the type of its file; a Q4_K or Q8_0 file takes less memory")},
	{Names: words("bf16"), Flag: "compute-type", Bool: true, Read: whenTrue("compute-type", "bf16")},
	{Names: words("fp16"), Flag: "compute-type", Bool: true, Read: whenTrue("compute-type", "f16")},
	{Names: words("dtype torch-dtype"), Flag: "compute-type", Read: renamed("compute-type", map[string]string{
		"none": "auto", "auto": "auto", "float32": "f32", "bfloat16": "bf16", "float16": "f16", "f32": "f32", "bf16": "bf16", "f16": "f16", "fp16": "f16",
	})},
	{Names: words("attn-implementation flash-attn"), Help: "Attention is always computed in blocks.", Read: changesNothing("attention is always computed in blocks")},
	{Names: words("trust-remote-code"), Bool: true, Help: "A model's own code is never run.", Read: accepted},
	{Names: words("use-cpu"), Bool: true, Flag: "device", Read: whenTrue("device", "CPU")},
}

var foreignData = []cli.Foreign{
	{Names: words("dataset"), Flag: "train-data", Read: dataset},
	{Names: words("val-size"), Flag: "valid-split", Read: valSize},
	{Names: words("prompt-feature"), Flag: "key", Read: key("prompt")},
	{Names: words("completion-feature"), Flag: "key", Read: key("completion")},
	{Names: words("chat-feature"), Flag: "key", Read: key("messages")},
	{Names: words("text-feature dataset-text-field"), Flag: "key", Read: key("text")},
	{Names: words("hf-dataset"), Read: refused("nothing is downloaded: fetch the data set's Parquet or JSONL files, and name them with --train-data; --key maps the names of its columns")},
	{Names: words("dataset-dir media-dir"), Help: "--train-data names files by their paths.", Read: refused("give --train-data (--dataset) the paths of the files; dataset_info.json is not read")},
	{Names: words("dataset-config dataset-streaming"), Help: "--train-data names files.", Read: refused("nothing is downloaded; name files with --train-data")},
	{Names: words("dataset-train-split"), Help: "train only.", Read: only("training reads the train split of a folder; name another file with --train-data", "train")},
	{Names: words("dataset-test-split"), Help: "valid, validation or test only.", Read: only("the valid split of a folder is held out; name another file with --valid-data", "valid", "validation", "test")},
	{Names: words("format-type"), Help: "auto only: the keys of a record show its format.", Read: only("the keys of a record show its format", "auto")},
	{Names: words("mask-prompt mask-history"), Bool: true, Flag: "train-on", Read: whenTrue("train-on", "last")},
	{Names: words("completion-only-loss"), Bool: true, Flag: "train-on", Read: either("train-on", "completion", "all")},
	{Names: words("assistant-only-loss train-on-completions train-on-responses-only"), Bool: true, Flag: "train-on", Read: either("train-on", "assistant", "all")},
	{Names: words("train-on-prompt train-on-inputs"), Bool: true, Flag: "train-on", Read: whenTrue("train-on", "all")},
	{Names: words("truncation-mode"), Help: "keep_start only.", Read: only("--too-long cut keeps the start; the other choices are split and drop", "keep_start")},
	{Names: words("packing-strategy"), Help: "bfd only.", Read: only("--packing always packs best-fit decreasing, and samples do not attend to each other", "bfd")},
	{Names: words("preprocessing-num-workers preprocessing-batch-size dataset-num-proc dataloader-num-workers tokenized-path"), Help: "Data is encoded on all processors.",
		Read: changesNothing("data is encoded on all processors, and --cache-dir keeps the tokens")},
	{Names: words("overwrite-cache padding-free pad-to-max-length"), Bool: true, Help: "They change nothing here.", Read: accepted},
	{Names: words("eos-token"), Help: "The chat template ends each turn.", Read: changesNothing("training ends each turn as the chat template does")},
}

var foreignOptimizer = []cli.Foreign{
	{Names: words("num-train-epochs num-epochs"), Flag: "epochs", Read: whole("epochs", "--adam-iter (--max-steps) sets the number of steps")},
	{Names: words("max-steps"), Flag: "adam-iter", Read: maxSteps},
	{Names: words("optimizer optim"), Help: "adam, adamw and its variants; the moments are always F32.", Read: optimizer},
	{Names: words("optimizer-config.adam.betas optimizer-config.adamw.betas"), Read: betas},
	{Names: words("optimizer-config.adam.eps optimizer-config.adamw.eps"), Flag: "adam-eps", Read: renamedAll("adam-eps")},
	{Names: words("optimizer-config.adamw.weight-decay"), Flag: "adam-decay", Read: renamedAll("adam-decay")},
	{Names: words("optimizer-config.adam.bias-correction optimizer-config.adamw.bias-correction"), Read: only("bias correction is always on", "true")},
	{Names: words("lr-scheduler-type"), Flag: "schedule", Read: scheduler},
	{Names: words("lr-schedule"), Read: lrSchedule},
	{Names: words("random-state random-seed data-seed"), Flag: "seed", Read: renamedAll("seed")},
	{Names: words("auto-find-batch-size"), Bool: true, Flag: "fit", Read: whenTrue("fit", "auto")},
	{Names: words("use-gradient-checkpointing"), Flag: "use-checkpointing", Read: renamed("use-checkpointing", map[string]string{"unsloth": "true", "true": "true", "false": "false"})},
	{Names: words("clear-cache-threshold activation-offloading use-liger-kernel enable-liger-kernel torch-compile tf32 full-determinism"), Help: "They change nothing here.",
		Read: changesNothing("compute graphs are static, and kernels are fused")},
	{Names: words("ddp-timeout"), Help: "A lost process is noticed within seconds.", Read: changesNothing("a lost process is noticed within seconds")},
	{Names: words("per-device-eval-batch-size eval-accumulation-steps"), Help: "Held-out samples are evaluated in batches of --batch.", Read: changesNothing("held-out samples are evaluated in batches of --batch; the batch size does not change the result")},
}

var foreignAdapter = []cli.Foreign{
	{Names: words("r"), Flag: "lora-r", Read: renamedAll("lora-r")},
	{Names: words("lora-target lora-target-modules"), Flag: "targets", Read: targets},
	{Names: words("lora-parameters.keys"), Flag: "targets", Read: targets},
	{Names: words("lora-parameters.rank"), Flag: "lora-r", Read: renamedAll("lora-r")},
	{Names: words("lora-parameters.scale"), Flag: "lora-scale", Read: renamedAll("lora-scale")},
	{Names: words("lora-parameters.dropout"), Flag: "lora-dropout", Read: renamedAll("lora-dropout")},
	{Names: words("lora-parameters.alpha"), Read: changesNothing("lora_parameters: scale sets the strength; alpha has no effect in mlx-lm either")},
	{Names: words("bias lora-bias"), Help: "none only.", Read: only("llama.cpp's adapter files hold no biases", "none")},
	{Names: words("loftq-config use-loftq use-dora"), Help: "None or false only.", Read: only("LoftQ changes the base model, and llama.cpp's adapter files have no room for DoRA's magnitudes", "none", "false")},
	{Names: words("lora-task-type"), Help: "CAUSAL_LM only.", Read: only("only language models are trained", "causal_lm")},
}

var foreignRun = []cli.Foreign{
	{Names: words("metric-for-best-model"), Flag: "best-by", Read: renamed("best-by", map[string]string{
		"loss": "loss", "eval_loss": "loss", "accuracy": "accuracy", "eval_accuracy": "accuracy", "mean_token_accuracy": "accuracy",
		"eval_mean_token_accuracy": "accuracy", "rewards/accuracies": "accuracy", "eval_rewards/accuracies": "accuracy",
	})},
	{Names: words("greater-is-better"), Bool: true, Help: "It follows from --best-by.", Read: accepted},
	{Names: words("logging-steps steps-per-report"), Help: "Each step is shown, and in --metrics.", Read: accepted},
	{Names: words("logging-strategy logging-first-step"), Help: "Each step is shown, and in --metrics.", Read: accepted},
	{Names: words("plot-loss"), Bool: true, Help: "The run folder has the curve; --loss-curve draws it elsewhere.", Read: accepted},
	{Names: words("eval-strategy evaluation-strategy"), Help: "steps or no: held-out data is evaluated every --valid-every steps.",
		Read: only("held-out data is evaluated every --valid-every (--eval-steps) steps", "steps", "no")},
	{Names: words("save-strategy"), Help: "steps only: the run is saved every --save-every steps.", Read: only("the run is saved every --save-every (--save-steps) steps; 0 saves only at the end", "steps")},
	{Names: words("save-only-model"), Bool: true, Help: "False only: --run-dir keeps a checkpoint.", Read: only("--run-dir keeps a checkpoint, from which the run can continue", "false")},
	{Names: words("save-model"), Bool: true, Help: "True only.", Read: only("the adapter is always saved", "true")},
	{Names: words("save-method"), Help: "lora only: finetune merge writes merged models.", Read: only("only the adapter is saved; finetune merge merges it into the base model", "lora")},
	{Names: words("resume-from-checkpoint"), Help: "False or None: the same command continues the run by itself.",
		Read: only("the same command continues the run in its --run-dir; --checkpoint-in names another checkpoint", "false", "none")},
	{Names: words("report-to"), Help: "none only: --metrics and --loss-curve write files.", Read: only("metrics are not sent to a service; --run-dir has metrics.jsonl and the loss curve, and --metrics and --loss-curve write them elsewhere", "none")},
	{Names: words("enable-wandb enable-tensorboard"), Bool: true, Help: "False only: --metrics and --loss-curve write files.", Read: only("metrics are not sent to a service; --run-dir has metrics.jsonl and the loss curve", "false")},
	{Names: words("push-to-hub push-model push-gguf"), Bool: true, Help: "False only: nothing is uploaded.", Read: only("nothing is uploaded; leave it out", "false")},
	{Names: words("save-gguf"), Bool: true, Help: "False only: the adapter is GGUF; finetune merge writes merged models.", Read: only("the adapter already is a GGUF file; finetune merge merges it into the base model", "false")},
}

// Flags without a counterpart, with what to use instead.
var foreignRefused = []cli.Foreign{
	{Names: words("wandb wandb-project project-name run-name"), Help: "Not available: --metrics and --loss-curve write files.", Read: refused("metrics are not sent to a service; --run-dir has metrics.jsonl and the loss curve")},
	{Names: words("hub-path hub-token hub-model-id hf-token"), Help: "Nothing is uploaded or downloaded.", Read: refused("nothing is uploaded or downloaded; leave it out")},
	{Names: words("save-path quantization"), Help: "finetune merge writes merged models.", Read: refused("the adapter is in --run-dir; finetune merge --model-out FILE --type TYPE merges it into the base model")},
	{Names: words("num-processes accelerate-config deepspeed fsdp use-ray"), Help: "mpirun starts processes, --device names devices.", Read: refused("mpirun -np N finetune … trains with N processes, and --device names several devices; leave it out")},
	{Names: words("pref-ftx rpo-alpha cpo-alpha"), Help: "Not available: --loss dpo,sft with --loss-weights adds the cross-entropy of chosen answers.", Read: refused("--loss dpo,sft --loss-weights 1,W adds the cross-entropy of chosen answers")},
	{Names: words("reference-model-path ref-model"), Help: "Not available: the reference is the model without the adapter, or with --ref-lora.", Read: refused("the reference is the model without the adapter, or with the adapter of --ref-lora")},
	{Names: words("test-batches"), Help: "No effect: finetune eval has --samples.", Read: changesNothing("finetune eval --data FILE --samples N measures held-out data")},
	{Names: words("lora-r-pattern exclude-modules modules-to-save additional-target"), Help: "--rank-of leaves matrices out; whole matrices are not saved.", Read: refused("--rank-of NAME=0 leaves matrices out; llama.cpp's adapter files hold no whole matrices")},
}

func words(text string) []string { return strings.Fields(text) }

func setting(flag string, values ...string) cli.Meaning {
	return cli.Meaning{Settings: []cli.Setting{{Flag: flag, Values: values}}}
}

// accepted is the meaning of a flag without effect.
func accepted(cli.Value) (cli.Meaning, error) { return cli.Meaning{}, nil }

// changesNothing returns the meaning of a flag without effect, with a note.
func changesNothing(why string) func(cli.Value) (cli.Meaning, error) {
	return func(cli.Value) (cli.Meaning, error) { return cli.Meaning{Note: "it changes nothing: " + why}, nil }
}

// unlessFalse notes for a switch that is on that it has no effect.
func unlessFalse(why string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		if isFalse(v) {
			return cli.Meaning{}, nil
		}
		return changesNothing(why)(v)
	}
}

func isFalse(v cli.Value) bool { return strings.EqualFold(v.String(), "false") }

// refused rejects a flag, and says what to use instead.
func refused(why string) func(cli.Value) (cli.Meaning, error) {
	return func(cli.Value) (cli.Meaning, error) { return cli.Meaning{}, errors.New(why) }
}

// stage reads LLaMA-Factory's kind of training.
func stage(v cli.Value) (cli.Meaning, error) {
	m, err := method(map[string]string{"sft": crossEntropy, "dpo": "dpo", "kto": "kto"})(v)
	switch strings.ToLower(v.String()) {
	case "pt":
		err = errors.New("plain text needs no stage: leave it out, and give --train-data a .txt file or records with a text")
	case "rm", "ppo":
		err = errors.New("reward models and reinforcement are not available; --loss dpo (stage dpo) prefers answers of pairs, and --loss kto (stage kto) judges single ones")
	}
	return m, err
}

// method is a loss that another flag may choose more exactly, such as LLaMA-Factory's pref_loss.
func method(losses map[string]string) func(cli.Value) (cli.Meaning, error) {
	read := renamed("loss", losses)
	return func(v cli.Value) (cli.Meaning, error) {
		m, err := read(v)
		for i := range m.Settings {
			m.Settings[i].Implied = true
		}
		return m, err
	}
}

// only accepts the values that describe what this program does anyway.
func only(why string, values ...string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		if slices.Contains(values, strings.ToLower(v.String())) {
			return cli.Meaning{}, nil
		}
		return cli.Meaning{}, errors.New(why)
	}
}

// renamedAll passes any value to a flag.
func renamedAll(flag string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) { return setting(flag, v.String()), nil }
}

// renamed passes the value of the same meaning to a flag.
func renamed(flag string, values map[string]string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		if value, ok := values[strings.ToLower(v.String())]; ok {
			return setting(flag, value), nil
		}
		return cli.Meaning{}, fmt.Errorf("--%s has no value with this meaning", flag)
	}
}

// either sets a flag to one value for true, and to another for false.
func either(flag, whenTrue, whenFalse string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		if isFalse(v) {
			return setting(flag, whenFalse), nil
		}
		return setting(flag, whenTrue), nil
	}
}

// whenTrue sets a flag if the switch is on.
func whenTrue(flag, value string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		if isFalse(v) {
			return cli.Meaning{}, nil
		}
		return setting(flag, value), nil
	}
}

// key sets a key of records.
func key(name string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) { return setting("key", name+"="+v.String()), nil }
}

// whole requires an integer, which may be written 3.0.
func whole(flag, otherwise string) func(cli.Value) (cli.Meaning, error) {
	return func(v cli.Value) (cli.Meaning, error) {
		x, err := strconv.ParseFloat(v.String(), 64)
		if err != nil || x != math.Trunc(x) || math.Abs(x) > 1e9 {
			return cli.Meaning{}, fmt.Errorf("--%s takes a whole number; %s", flag, otherwise)
		}
		return setting(flag, strconv.Itoa(int(x))), nil
	}
}

// maxSteps is the number of steps; in transformers and Unsloth 0 leaves it to the epochs.
func maxSteps(v cli.Value) (cli.Meaning, error) {
	if v.String() == "0" {
		return setting("adam-iter", "-1"), nil
	}
	return setting("adam-iter", v.String()), nil
}

// dataset splits LLaMA-Factory's comma-separated list.
func dataset(v cli.Value) (cli.Meaning, error) {
	var files []string
	for _, value := range v.List {
		if _, err := os.Stat(value); err == nil {
			files = append(files, value)
		} else {
			files = append(files, strings.Split(value, ",")...)
		}
	}
	return setting("train-data", files...), nil
}

// valSize is a fraction, as in --valid-split.
func valSize(v cli.Value) (cli.Meaning, error) {
	if x, err := strconv.ParseFloat(v.String(), 64); err == nil && x >= 1 {
		return cli.Meaning{}, errors.New("this is a number of samples; give --valid-split a fraction, such as 0.05")
	}
	return setting("valid-split", v.String()), nil
}

// targets accepts module paths, too.
func targets(v cli.Value) (cli.Meaning, error) {
	var names []string
	for _, list := range v.List {
		for name := range strings.SplitSeq(list, ",") {
			name = name[strings.LastIndexByte(name, '.')+1:]
			if name == "all" {
				name = "all-linear"
			}
			names = append(names, name)
		}
	}
	return setting("targets", names...), nil
}

func optimizer(v cli.Value) (cli.Meaning, error) {
	switch name := strings.ToLower(v.String()); {
	case slices.Contains(words("adam adamw adamw_torch adamw_hf"), name):
		return cli.Meaning{}, nil
	case strings.HasPrefix(name, "adamw_torch_fused"), strings.HasSuffix(name, "_8bit") && strings.Contains(name, "adamw"), strings.HasPrefix(name, "adamw_bnb"):
		return cli.Meaning{Note: "AdamW keeps its moments in F32, which take little memory for an adapter"}, nil
	}
	return cli.Meaning{}, errors.New("the only optimiser is AdamW; with --adam-decay 0, the default, it is Adam")
}

// betas are the decay rates of Adam's two moments.
func betas(v cli.Value) (cli.Meaning, error) {
	if len(v.List) != 2 {
		return cli.Meaning{}, errors.New("give two numbers, for --adam-beta1 and --adam-beta2")
	}
	return cli.Meaning{Settings: []cli.Setting{{Flag: "adam-beta1", Values: v.List[:1]}, {Flag: "adam-beta2", Values: v.List[1:]}}}, nil
}

// scheduler is a schedule of transformers. Its constant has no warm-up, even if other keys set one.
func scheduler(v cli.Value) (cli.Meaning, error) {
	m, err := renamed("schedule", map[string]string{
		"cosine": "cosine-from-0", "linear": "linear-from-0", "constant": train.ConstantAtOnce.String(), "constant_with_warmup": "constant-from-0",
	})(v)
	if strings.EqualFold(v.String(), "constant") {
		m.Note = "it has no warm-up; constant_with_warmup has one"
	}
	return m, err
}

// lrSchedule reads mlx-lm's schedule: a name, its arguments, and the warm-up.
func lrSchedule(v cli.Value) (m cli.Meaning, err error) {
	set := func(flag, value string) {
		m.Settings = append(m.Settings, cli.Setting{Flag: flag, Values: []string{value}})
	}
	one := func(name string) string { return strings.Join(v.Map[name], " ") }
	if x, err := strconv.ParseFloat(one("warmup-init"), 64); v.Map["warmup-init"] != nil && (err != nil || x != 0) {
		return m, errors.New("warmup_init: the warm-up always starts at 0; leave it out")
	}
	if warmup := one("warmup"); warmup != "" {
		set("warmup", warmup)
	}
	switch arguments := v.Map["arguments"]; {
	case one("name") == "cosine_decay" && (len(arguments) == 2 || len(arguments) == 3):
		set("schedule", "cosine")
		set("adam-alpha", arguments[0])
		set("cos-decay-steps", arguments[1])
		if len(arguments) == 3 {
			set("adam-min-alpha", arguments[2])
		}
	case one("name") == "linear_schedule" && len(arguments) == 3:
		set("schedule", "linear")
		set("adam-alpha", arguments[0])
		set("adam-min-alpha", arguments[1])
		set("cos-decay-steps", arguments[2])
	default:
		return cli.Meaning{}, errors.New("expected cosine_decay with [rate, steps, last rate] or linear_schedule with [rate, last rate, steps]; or give --schedule, --adam-alpha, --adam-min-alpha, --cos-decay-steps and --warmup instead")
	}
	return m, nil
}
