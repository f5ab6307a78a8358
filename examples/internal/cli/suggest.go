package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// meanings maps words in the names of other programs' flags to the flags of the same meaning here.
var meanings = map[string]string{
	"lr": "adam-alpha", "rate": "adam-alpha", "bs": "batch", "bsz": "batch", "minibatch": "batch",
	"epoch": "epochs", "step": "adam-iter", "iterations": "adam-iter", "iter": "adam-iter",
	"seqlen": "ctx", "context": "ctx", "len": "ctx", "tokens": "ctx", "truncate": "too-long", "truncation": "too-long",
	"gpu": "device", "cuda": "device", "cpu": "threads", "jobs": "threads", "workers": "threads", "backend": "device",
	"wandb": "metrics", "tensorboard": "metrics", "log": "metrics", "logging": "metrics", "plot": "loss-curve",
	"output": "run-dir", "out": "run-dir", "save": "save-every", "resume": "checkpoint-in", "checkpoint": "checkpoint-in",
	"quantization": "compute-type", "dtype": "compute-type", "precision": "compute-type", "template": "chat-template", "jinja": "chat-template",
	"eval": "valid-data", "validation": "valid-data", "dev": "valid-data", "dataset": "train-data", "input": "train-data",
	"scale": "lora-scale", "strength": "lora-alpha", "modules": "targets", "layers": "last-layers", "noise": "neftune-alpha",
	"accumulation": "grad-acc", "accum": "grad-acc", "clip": "adam-gclip", "decay": "adam-decay", "scheduler": "schedule",
	"base": "model-base", "mask": "train-on", "recompute": "use-checkpointing", "temperature": "temp", "repetition": "repeat-penalty",
}

// suggest returns flags that a name may have meant: with the same letters, nearly the same letters, or a word
// of the same meaning.
func (v *vocabulary) suggest(name string) []string {
	name = name[strings.LastIndexByte(name, '.')+1:] // the last key of a mapping in a file
	names := v.names()
	letters := func(s string) string { return strings.ReplaceAll(s, "-", "") }
	within := func(distance int) []string {
		if len(letters(name)) < 2*distance {
			return nil
		}
		return names.nearest(func(candidate string) float64 { return float64(editDistance(letters(name), letters(candidate))) }, float64(distance))
	}
	for _, find := range []func() []string{
		func() []string { return within(1) },
		func() []string {
			words := strings.Split(name, "-")
			return names.nearest(func(candidate string) float64 { return -names.shared(words, candidate) }, -0.3)
		},
		func() []string { return within(2) },
		func() []string { return within(3) },
	} {
		if list := find(); len(list) > 0 {
			return list
		}
	}
	return nil
}

// flagNames maps names of flags, in any program, to the flag here.
type flagNames map[string]string

func (v *vocabulary) names() flagNames {
	names := flagNames{}
	for _, f := range v.flags {
		if f.Hidden {
			continue
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			names[name] = f.Name
		}
	}
	for word, flag := range meanings {
		if names[flag] == flag {
			if _, taken := names[word]; !taken {
				names[word] = flag
			}
		}
	}
	for _, f := range v.foreign {
		for _, name := range f.Names {
			if f.Flag != "" && !strings.Contains(name, ".") {
				names[name] = f.Flag
			}
		}
	}
	return names
}

// nearest returns the flags whose names have the smallest distance, if it is at most most.
func (n flagNames) nearest(distance func(name string) float64, most float64) []string {
	best, list := most, []string(nil)
	for name, flag := range n {
		switch d := distance(name); {
		case d < best-1e-9:
			best, list = d, nil
			fallthrough
		case d <= best+1e-9:
			if text := "--" + flag; !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	slices.Sort(list)
	if len(list) > 3 {
		return nil // too many: a guess
	}
	return list
}

// shared measures how well the words of a name match another name: the rarer a word among flags, the higher. Of
// names with the same words the shorter is nearer.
func (n flagNames) shared(words []string, name string) float64 {
	other := strings.Split(name, "-")
	sum := 0.0
	for _, word := range words {
		if slices.Contains(other, word) {
			sum += 1 / float64(n.frequency(word))
		}
	}
	return sum / math.Sqrt(float64(max(1, len(other))))
}

// frequency returns the number of flags that have a word in one of their names.
func (n flagNames) frequency(word string) int {
	flags := map[string]bool{}
	for name, flag := range n {
		if slices.Contains(strings.Split(name, "-"), word) {
			flags[flag] = true
		}
	}
	return len(flags)
}

// editDistance returns the Damerau-Levenshtein distance: swapping two neighbouring letters costs 1.
func editDistance(a, b string) int {
	rows := [3][]int{}
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, now := rows[0], rows[1], rows[2]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, now, before}
	}
	return rows[1][len(b)]
}

// otherCommands maps other programs' names of commands to the commands here.
var otherCommands = map[string]string{
	"sft": "train", "lora": "train", "finetune": "train", "fine-tune": "train", "fit": "train",
	"test": "eval", "evaluate": "eval", "perplexity": "eval", "fuse": "merge", "export-lora": "merge",
	"convert": "export", "generate": "chat", "run": "chat", "talk": "chat", "list": "ls",
}

// unknownCommand returns the error for a first argument that is no command.
func unknownCommand(name string, app *kong.Node) error {
	var commands []string
	for _, child := range app.Children {
		if !child.Hidden {
			commands = append(commands, child.Name)
		}
	}
	text := fmt.Sprintf("there is no command %s", name)
	if other := otherCommands[name]; slices.Contains(commands, other) {
		return fmt.Errorf("%s; did you mean %s?", text, other)
	}
	best, suggestion := max(1, len(name)/3)+1, ""
	for _, command := range commands {
		if d := editDistance(name, command); d < best {
			best, suggestion = d, command
		}
	}
	if suggestion != "" {
		return fmt.Errorf("%s; did you mean %s?", text, suggestion)
	}
	return fmt.Errorf("%s; the commands are %s", text, strings.Join(commands, ", "))
}
