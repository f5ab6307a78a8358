package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
)

// printUse tells how the model is run with its adapter, by commands that a shell takes.
func (r *report) printUse(w io.Writer) error {
	stock, err := r.stockCommand()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "use it:\n  %s\nor with llama.cpp:\n  %s\n", r.ownCommand(), stock)
	return err
}

// ownCommand is that of these programs. The folder of a run knows what goes with the adapter.
func (r *report) ownCommand() string {
	command := ownProgram() + " chat"
	if !r.isChat {
		command = siblingProgram("generate")
	}
	switch {
	case r.p.RunDir != "" && r.isChat:
		command += " " + cli.ShellQuote(argument(r.p.RunDir))
	case r.p.RunDir != "":
		command += " --run-dir " + cli.ShellQuote(r.p.RunDir)
	default:
		command += " --model " + cli.ShellQuote(r.p.ModelBase) + " --lora " + cli.ShellQuote(r.adapterPath()) + r.templateArgs() + r.p.Args()
	}
	if !r.isChat {
		command += " --prompt " + cli.ShellQuote(r.prompt())
	}
	return command
}

// templateArgs are the flags of the template, where conversations were trained.
func (r *report) templateArgs() string {
	if !r.isChat {
		return ""
	}
	args := ""
	if r.p.ChatTemplate != "" {
		args += " --chat-template " + cli.ShellQuote(r.p.ChatTemplate)
	}
	for _, variable := range r.p.TemplateVar {
		args += " --template-var " + cli.ShellQuote(variable)
	}
	return args
}

// stockCommand is that of llama.cpp.
func (r *report) stockCommand() (string, error) {
	program, end := "llama-cli", ""
	if !r.isChat {
		program, end = "llama-completion", " -p "+cli.ShellQuote(r.prompt())+" -no-cnv"
	} else {
		if r.p.ChatTemplate != "" {
			end = " --jinja --chat-template-file " + cli.ShellQuote(r.p.ChatTemplate)
		}
		variables, err := cli.Variables("--template-var", r.p.TemplateVar)
		if err != nil {
			return "", err
		}
		if len(variables) > 0 {
			text, err := json.Marshal(variables)
			if err != nil {
				return "", err
			}
			end += " --chat-template-kwargs " + cli.ShellQuote(string(text))
		}
	}
	return fmt.Sprintf("%s -m %s --lora %s%s%s", program, cli.ShellQuote(r.p.ModelBase), cli.ShellQuote(listItem(r.adapterPath())), end, r.p.LlamaArgs(r.m.Config().Arch)), nil
}

// listItem is a path as llama.cpp takes it in a list with commas between.
func listItem(path string) string {
	if !strings.Contains(path, ",") && !strings.HasPrefix(path, `"`) {
		return path
	}
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}

// argument is a path that is no flag, whatever it begins with.
func argument(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

func (r *report) prompt() string { return cmp.Or(r.p.Prompt, "Once upon a time") }

// ownProgram is the command that this program is.
func ownProgram() string {
	if isGoRun() {
		return goRun("finetune")
	}
	return cli.ShellQuote(os.Args[0])
}

// siblingProgram is another program: the one beside this, if it is there.
func siblingProgram(name string) string {
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), name)
		if _, err := os.Stat(beside); err == nil {
			return cli.ShellQuote(beside)
		}
	}
	return goRun(name)
}

// isGoRun reports whether go run made this program, which removes it when it ends.
func isGoRun() bool {
	exe, err := os.Executable()
	return err == nil && strings.Contains(filepath.ToSlash(exe), "/go-build")
}

// goRun is the command that fetches, builds and runs a program of this module; go run has it
// already, of a clone or of a version.
func goRun(name string) string {
	version := "@latest"
	if info, ok := debug.ReadBuildInfo(); ok && isGoRun() {
		if version = "@" + info.Main.Version; info.Main.Version == "(devel)" {
			version = ""
		}
	}
	return "go run github.com/goggml/ggml/examples/" + name + version
}
