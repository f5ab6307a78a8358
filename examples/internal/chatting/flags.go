// Package chatting lets a user or a program talk with a model: in a dialogue, by questions
// on the command line, or in lines of JSON.
package chatting

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/generate"
)

// Flags are the flags of a conversation, for kong.
type Flags struct {
	System       string   `name:"system" basic:"" placeholder:"TEXT" help:"System prompt." group:"Chat"`
	ChatTemplate string   `name:"chat-template" basic:"" run:"" placeholder:"FILE" help:"Chat template (Jinja), by default the one in the model's file." group:"Chat"`
	TemplateVar  []string `name:"template-var" run:"" sep:"none" placeholder:"KEY=VALUE" help:"Variable of the chat template, in JSON or else as text, such as enable_thinking=false. Can be given several times." group:"Chat"`
	Stop         []string `name:"stop" sep:"none" placeholder:"TEXT" help:"Text that ends a reply and is not shown, in addition to the model's own end. Can be given several times." group:"Chat"`
	Special      bool     `name:"special" help:"Show control tokens in replies: some models begin tool calls with one." group:"Chat"`
	JSON         bool     `name:"json" basic:"" help:"Read conversations and messages as lines of JSON from standard input, and write each reply as one." group:"Chat"`
}

// Given returns the name of a flag that is set, or "".
func (f *Flags) Given() string {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--system", f.System != ""}, {"--chat-template", f.ChatTemplate != ""}, {"--template-var", len(f.TemplateVar) > 0},
		{"--stop", len(f.Stop) > 0}, {"--special", f.Special}, {"--json", f.JSON},
	} {
		if flag.given {
			return flag.name
		}
	}
	return ""
}

// options returns the settings of replies from the flags.
func (f *Flags) options() (generate.ChatOptions, error) {
	o := generate.ChatOptions{Stop: f.Stop, ShowSpecial: f.Special}
	var err error
	if o.Variables, err = cli.Variables("--template-var", f.TemplateVar); err != nil {
		return o, err
	}
	for _, text := range f.Stop {
		if text == "" {
			return o, errors.New("--stop is empty; give a text")
		}
	}
	if f.ChatTemplate == "" {
		return o, nil
	}
	o.Template, err = cli.ReadTemplate("--chat-template", f.ChatTemplate)
	return o, err
}

// Command is the flags of a program that chats, for kong.
type Command struct {
	inference.SessionFlags
	Prompt   []string `name:"prompt" short:"p" sep:"none" placeholder:"TEXT" help:"Question to answer instead of a dialogue; - reads it from standard input. Several are turns of one conversation." group:"Chat"`
	NPredict int      `name:"n-predict" range:"[-1,2147483647]" short:"n" default:"-1" help:"Most tokens of a reply; -1 until the model ends it or the context is full." group:"Chat"`
	Flags
	inference.Sampling
}

// Help is the text that kong adds to the help of the command.
func (c *Command) Help() string { return Help }

// Help explains what is read from standard input.
const Help = `Without a prompt, a dialogue begins: each line is a message, and a backslash at its end continues it in the next line; /help lists commands. In a terminal, the line can be edited, the arrow keys recall earlier messages, and lines pasted together are one message. Ctrl-C stops a reply or, at the prompt, the program; Ctrl-D ends it.

With --json each line of standard input is a conversation, {"messages": [{"role": "user", "content": "…"}, …], "tools": […]}, or a further message of the one before, {"role": "user", "content": "…"}. Conversations, and messages of the roles user and tool, are answered by a line {"content", "finish_reason": "stop" or "length", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds"}, with "tool_calls" in OpenAI's form if the answer calls tools and the template's form of calls is known. A line that cannot be answered counts as not sent: {"line", "error"} says why, and the exit status will be 1. Reasoning and tool calls are in the content too, as the model writes them.`

// Run loads the model, and chats until the input ends.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	prompts, err := inference.ReadPrompts(c.Prompt, os.Stdin)
	if err != nil {
		return err
	}
	m, err := c.Load(1)
	if err != nil {
		return err
	}
	defer m.Close()
	return Run(ctx, Settings{
		Flags: c.Flags, Sampling: c.Sampling, Model: m, Inputs: c.Files(), Prompts: prompts, Limit: cli.Optional(c.NPredict), Stats: c.Stats,
		In: os.Stdin, Out: out, Log: os.Stderr,
	})
}
