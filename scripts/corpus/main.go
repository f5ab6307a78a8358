// Command corpus makes training text from what every Go installation carries:
// the standard library's source tree.
//
//	go run ./scripts/corpus -kind prose  -out prose.txt  -valid prose-valid.txt
//	go run ./scripts/corpus -kind source -out source.txt -max-bytes 2000000
//
// The kind prose is the English of the doc comments, one document a package,
// a paragraph a line. The kind source is Go code without its comments, one
// document a file, in gofmt's form. The two differ enough to serve as the old
// and the new domain of a fine-tuning run.
//
// The output is plain UTF-8 text in which documents are separated by two blank
// lines, and nothing inside a document is. It is byte-identical from run to
// run for one Go version, whatever the host.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// options are the command's flags.
type options struct {
	kind          string
	out, valid    string
	validFraction float64
	maxBytes      int
	goroot        string
}

func main() {
	err := run(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// run is the whole command; it reports what it wrote to log.
func run(args []string, log io.Writer) error {
	opt, err := parseFlags(args, log)
	if err != nil {
		return err
	}
	if opt.goroot == "" {
		if opt.goroot, err = findGOROOT(); err != nil {
			return err
		}
	}
	pkgs, err := listPackages(opt.goroot)
	if err != nil {
		return err
	}
	extract := proseDocuments
	if opt.kind == "source" {
		extract = sourceDocuments
	}
	docs, err := extract(pkgs)
	if err != nil {
		return err
	}
	docs = dropRepeats(docs)
	if len(docs) == 0 {
		return fmt.Errorf("no %s found in %d packages under %s", opt.kind, len(pkgs), opt.goroot)
	}
	return write(opt, docs, log)
}

// write splits and samples docs, and writes the one or two files asked for.
func write(opt options, docs []document, log io.Writer) error {
	train, held := docs, []document(nil)
	if opt.valid != "" {
		train, held = split(docs, opt.validFraction)
		if len(train) == 0 || len(held) == 0 {
			return fmt.Errorf("of %d documents %d are for training and %d held out: change -valid-fraction %g",
				len(docs), len(train), len(held), opt.validFraction)
		}
	}
	if opt.maxBytes > 0 {
		heldBytes := 0
		if opt.valid != "" {
			heldBytes = int(float64(opt.maxBytes) * opt.validFraction)
		}
		train = sample(train, opt.maxBytes-heldBytes)
		held = sample(held, heldBytes)
		if len(train) == 0 || opt.valid != "" && len(held) == 0 {
			return fmt.Errorf("-max-bytes %d is too small to hold a document of each file", opt.maxBytes)
		}
	}
	files := []outputFile{{opt.out, join(train)}}
	if opt.valid != "" {
		files = append(files, outputFile{opt.valid, join(held)})
	}
	if err := writeFiles(files); err != nil {
		return err
	}
	report(log, opt.kind, opt.out, train, len(files[0].data))
	if opt.valid != "" {
		report(log, opt.kind+", held out", opt.valid, held, len(files[1].data))
	}
	return nil
}

func report(log io.Writer, kind, path string, docs []document, size int) {
	fmt.Fprintf(log, "%s: %d documents, %.2f MB (%s)\n", path, len(docs), float64(size)/1e6, kind)
}

func parseFlags(args []string, log io.Writer) (options, error) {
	var opt options
	fs := flag.NewFlagSet("corpus", flag.ContinueOnError)
	fs.SetOutput(log)
	fs.StringVar(&opt.kind, "kind", "prose", "`what` to extract: prose (doc comments) or source (Go code)")
	fs.StringVar(&opt.out, "out", "", "write the text to `FILE` (required)")
	fs.StringVar(&opt.valid, "valid", "", "write held-out documents to `FILE`; they are then not in -out")
	fs.Float64Var(&opt.validFraction, "valid-fraction", 0.1, "share of documents to hold out with -valid, between 0 and 1")
	fs.IntVar(&opt.maxBytes, "max-bytes", 0, "keep at most this many `bytes` in both files together, spread over the packages; 0 keeps all")
	fs.StringVar(&opt.goroot, "goroot", "", "the Go installation's `directory`; empty asks the go command")
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	switch {
	case fs.NArg() > 0:
		return opt, fmt.Errorf("unexpected argument %q: everything is given by flags, see -help", fs.Arg(0))
	case opt.kind != "prose" && opt.kind != "source":
		return opt, fmt.Errorf("-kind %q is neither prose nor source", opt.kind)
	case opt.out == "":
		return opt, errors.New("-out is missing: name the file to write")
	case opt.out == opt.valid:
		return opt, fmt.Errorf("-out and -valid both name %s: give two files", opt.out)
	case !(opt.validFraction > 0 && opt.validFraction < 1):
		return opt, fmt.Errorf("-valid-fraction %g is not between 0 and 1", opt.validFraction)
	case opt.maxBytes < 0:
		return opt, fmt.Errorf("-max-bytes %d is negative", opt.maxBytes)
	}
	return opt, nil
}

// findGOROOT asks the go command, because a binary built elsewhere or with
// -trimpath does not know where the installation is.
func findGOROOT() (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w %s: install Go, or name its directory with -goroot", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
