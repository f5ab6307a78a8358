package chatting

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/filelink"
)

// command executes a command line of the dialogue, such as /undo.
func (d *dialogue) command(line string) error {
	name, argument, _ := strings.Cut(line, " ")
	argument = strings.TrimSpace(argument)
	switch name {
	case "/reset":
		d.reset()
	case "/undo":
		return d.undo()
	case "/system":
		d.setSystem(argument)
	case "/save":
		return d.save(argument)
	case "/help":
		fmt.Fprint(d.Log, commands)
	default:
		return fmt.Errorf("unknown command %s; /help lists the commands; start a message that begins with / with //", name)
	}
	return nil
}

const commands = `/reset        start over, with the same system prompt
/undo         remove the last message and its reply
/system TEXT  change the system prompt; without a text, remove it
/save FILE    append the conversation to a file, as a line of JSON
/help         list the commands
\             at the end of a line: the message continues in the next line
`

// undo removes the user's last message and all that follow it.
func (d *dialogue) undo() error {
	for i := len(d.Messages) - 1; i >= 0; i-- {
		if d.Messages[i].Role() == "user" {
			d.Messages = d.Messages[:i]
			return nil
		}
	}
	return errors.New("/undo: there is no message yet")
}

func (d *dialogue) save(path string) error {
	if path == "" {
		return errors.New("/save: name a file")
	}
	if len(d.Messages) == 0 {
		return errors.New("/save: there is no message yet")
	}
	inputs := append(d.Inputs[:len(d.Inputs):len(d.Inputs)], cli.File{Flag: "--chat-template", Path: d.ChatTemplate})
	if err := cli.CheckOutputs(inputs, []cli.File{{Flag: "/save", Path: path}}); err != nil {
		return err
	}
	var line bytes.Buffer
	if err := writeJSON(&line, d.Conversation); err != nil {
		return fmt.Errorf("/save %s: %w", path, err)
	}
	if err := filelink.Append(path, line.Bytes()); err != nil {
		return fmt.Errorf("/save: %w", err)
	}
	return nil
}
