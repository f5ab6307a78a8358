package training

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
)

// flagOfOption returns the flag of a data option with its value, or "" if no flag sets it.
func flagOfOption(o data.Option) string {
	switch o.Name {
	case "Keys":
		return cli.ShellArg("--key", cmp.Or(o.Key, "KEY")+"="+cmp.Or(o.Value, "NAME"))
	case "Roles":
		return cli.ShellArg("--role", o.Key+"="+o.Value)
	case "SkipBroken":
		return "--skip-broken"
	case "Template":
		return "--chat-template FILE"
	case "Length":
		return "--ctx " + o.Value
	case "TooLong":
		return "--too-long " + o.Value
	case "RawPrompts":
		return "--raw-prompts"
	case "EmptyReasoning":
		return "--empty-reasoning " + o.Value
	case "MaxExamples":
		return "--max-samples"
	case "Packed":
		return "--packing"
	}
	return ""
}

// withFlag names the flags of options in an error of data, or adds the flag that remedies it.
func withFlag(err error) error {
	var options *data.OptionError
	var e *data.Error
	switch {
	case errors.As(err, &options):
		return errors.New(options.Named(flagOfOption))
	case errors.As(err, &e) && flagOfOption(e.Option) != "":
		return fmt.Errorf("%w (%s)", err, flagOfOption(e.Option))
	}
	return err
}
