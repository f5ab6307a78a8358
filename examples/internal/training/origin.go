package training

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// origin describes, by flags, the training data and how it was read; call it after the read. A checkpoint of
// other data reports the differences.
func (f *DataFlags) origin() (map[string]string, error) {
	splits, err := f.trainFiles()
	if err != nil {
		return nil, err
	}
	origin := map[string]string{"--packing": fmt.Sprint(f.Packing), "--valid-split": fmt.Sprint(f.ValidSplit)}
	if !f.splitByRow {
		origin[copies] = copiesTogether
	}
	addFlags(origin, reflect.ValueOf(f.TextFlags))
	addFlags(origin, reflect.ValueOf(f.RecordFlags))
	if origin["--train-data"], err = f.contents(splits.Train...); err != nil {
		return nil, err
	}
	if f.ChatTemplate != "" {
		if origin["--chat-template"], err = f.contents(f.ChatTemplate); err != nil {
			return nil, err
		}
	}
	if f.TemplateDate == "" {
		origin["--template-date"] = time.Now().Format(time.DateOnly)
	}
	if !f.seesDate {
		delete(origin, "--template-date")
	}
	return origin, nil
}

// Entry of the origin: copies of a row are on one side of --valid-split. Older runs lack it.
const copies, copiesTogether = "copies", "on one side of --valid-split"

// splitsByRow reports whether the run of a checkpoint held rows out without regard to copies, as older versions
// did.
func splitsByRow(checkpoint string) bool {
	origin, err := train.DataOrigin(checkpoint)
	return err == nil && origin[copies] == ""
}

// addFlags adds the values of a struct of flags.
func addFlags(origin map[string]string, flags reflect.Value) {
	for i := range flags.NumField() {
		name, ok := flags.Type().Field(i).Tag.Lookup("name")
		if !ok {
			continue
		}
		text := "not given"
		switch value := flags.Field(i).Interface().(type) {
		case string:
			if value != "" {
				text = cli.ShellQuote(value)
			}
		case []string:
			if len(value) > 0 {
				text = strings.Join(value, ", ")
			}
		default:
			text = fmt.Sprint(value)
		}
		origin["--"+name] = text
	}
}

// contents names files, or returns their number with the start of their hash.
func (f *DataFlags) contents(files ...string) (string, error) {
	if slices.ContainsFunc(files, data.IsPipe) {
		return "a pipe", nil // it cannot be read twice
	}
	sums, err := f.hashes.Of(files...)
	if err != nil {
		return "", err
	}
	if len(files) == 1 {
		return fmt.Sprintf("%s (SHA-256 %.8s…)", filepath.Base(files[0]), sums[0]), nil
	}
	all := sha256.Sum256([]byte(strings.Join(sums, "\n")))
	return fmt.Sprintf("%d files (SHA-256 %.4x…)", len(files), all), nil
}
