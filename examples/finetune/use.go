package main

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
)

// printUse prints how to run the model with its adapter.
func (r *report) printUse(w io.Writer) error {
	stock, err := r.stockCommand()
	if err != nil {
		return err
	}
	return cli.Advise(w, cli.Advice{For: "use it", Words: r.ownCommand()}, cli.Advice{For: "or with llama.cpp", Words: stock})
}

// ownCommand returns the command of these programs that uses the adapter. The run's folder contains the other
// settings.
func (r *report) ownCommand() []string {
	words := append(ownProgram(), "chat")
	if !r.isChat {
		words = siblingProgram("generate")
	}
	switch {
	case r.p.RunDir != "" && r.isChat:
		words = append(words, argument(r.p.RunDir))
	case r.p.RunDir != "":
		words = append(words, cli.Arg("--run-dir", r.p.RunDir)...)
	default:
		words = slices.Concat(words, cli.Arg("--model", r.p.ModelBase), cli.Arg("--lora", r.adapterPath()), r.templateArgs(), r.p.Args())
	}
	if !r.isChat {
		words = append(words, cli.Arg("--prompt", r.prompt())...)
	}
	return words
}

// templateArgs returns the flags of the template if conversations were trained.
func (r *report) templateArgs() (words []string) {
	if !r.isChat {
		return nil
	}
	if r.p.ChatTemplate != "" {
		words = append(words, cli.Arg("--chat-template", r.p.ChatTemplate)...)
	}
	for _, variable := range r.p.TemplateVar {
		words = append(words, cli.Arg("--template-var", variable)...)
	}
	return words
}

// stockCommand returns the command of llama.cpp that uses the adapter.
func (r *report) stockCommand() ([]string, error) {
	words := []string{"llama-cli"}
	if !r.isChat {
		words = []string{"llama-completion"}
	}
	words = append(words, "-m", r.p.ModelBase, "--lora", listItem(r.adapterPath()))
	if r.isChat {
		template, err := r.stockTemplate()
		if err != nil {
			return nil, err
		}
		words = append(words, template...)
	} else {
		words = append(words, "-p", r.prompt(), "-no-cnv")
	}
	return append(words, r.p.LlamaArgs(r.m.Config().Arch)...), nil
}

// stockTemplate returns llama.cpp's flags of the template.
func (r *report) stockTemplate() (words []string, err error) {
	if r.p.ChatTemplate != "" {
		words = append(words, "--jinja", "--chat-template-file", r.p.ChatTemplate)
	}
	variables, err := cli.Variables("--template-var", r.p.TemplateVar)
	if err != nil || len(variables) == 0 {
		return words, err
	}
	text, err := json.Marshal(variables)
	return append(words, "--chat-template-kwargs", string(text)), err
}

// listItem quotes a path for llama.cpp's comma-separated lists.
func listItem(path string) string {
	if !strings.Contains(path, ",") && !strings.HasPrefix(path, `"`) {
		return path
	}
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}

// argument returns a path that cannot be mistaken for a flag.
func argument(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

func (r *report) prompt() string { return cmp.Or(r.p.Prompt, "Once upon a time") }

// ownProgram returns the command that runs this program.
func ownProgram() []string {
	if isGoRun() {
		return goRun("finetune")
	}
	return []string{os.Args[0]}
}

// siblingProgram returns the command that runs another program: the one beside this executable, if it exists.
func siblingProgram(name string) []string {
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), name)
		if _, err := os.Stat(beside); err == nil {
			return []string{beside}
		}
	}
	return goRun(name)
}

// isGoRun reports whether go run built this executable, which it removes at the end.
func isGoRun() bool {
	exe, err := os.Executable()
	return err == nil && strings.Contains(filepath.ToSlash(exe), "/go-build")
}

// goRun returns the command that downloads, builds and runs a program of this module, for the same clone or
// version.
func goRun(name string) []string {
	version := "@latest"
	if info, ok := debug.ReadBuildInfo(); ok && isGoRun() {
		if version = "@" + info.Main.Version; info.Main.Version == "(devel)" {
			version = ""
		}
	}
	return []string{"go", "run", "github.com/goggml/ggml/examples/" + name + version}
}
