package training

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
)

// withFlag adds to an error of data the flag by which its remedy is done.
func withFlag(err error) error {
	var e *data.Error
	if !errors.As(err, &e) {
		return err
	}
	flag := ""
	switch o := e.Option; o.Name {
	case "Keys":
		flag = cli.ShellArg("--key", cmp.Or(o.Key, "KEY")+"="+cmp.Or(o.Value, "NAME"))
	case "Roles":
		flag = cli.ShellArg("--role", o.Key+"="+o.Value)
	case "SkipBroken":
		flag = "--skip-broken"
	case "Template":
		flag = "--chat-template FILE"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, flag)
}
