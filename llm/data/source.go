package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Stdin is the name of the standard input as a source.
const Stdin = "-"

// Splits lists the files of each split of a data folder.
type Splits struct{ Train, Valid, Test []string }

// splitName matches file names of splits: train.jsonl, validation.jsonl.gz,
// train-00000-of-00002.parquet.
var splitName = regexp.MustCompile(`(?i)^(train|training|valid|validation|val|dev|test)([-_.].*)?$`)

// Folder finds the files of a folder's splits: train, valid (or validation, val, dev) and test, with
// the extension .jsonl, .json, .ndjson, .parquet, .csv, .tsv or .txt, optionally followed by .gz. A
// split may have several files with the same extension, such as train-00000-of-00002.parquet. The
// folder must have a train split.
func Folder(path string) (Splits, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return Splits{}, unreadable(path, err)
	}
	var s Splits
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		m := splitName.FindStringSubmatch(e.Name())
		if e.IsDir() || m == nil || !slices.Contains(dataExtensions, extension(e.Name())) {
			continue
		}
		split := &s.Train
		switch strings.ToLower(m[1]) {
		case "valid", "validation", "val", "dev":
			split = &s.Valid
		case "test":
			split = &s.Test
		}
		*split = append(*split, filepath.Join(path, e.Name()))
	}
	for _, split := range [][]string{s.Train, s.Valid, s.Test} {
		for _, file := range split {
			if extension(file) != extension(split[0]) {
				return Splits{}, &Error{File: path, Kind: Unreadable, Remedy: "remove one of them, or name the files",
					Reason: fmt.Sprintf("%s and %s are both files of the same split", filepath.Base(split[0]), filepath.Base(file))}
			}
		}
	}
	if len(s.Train) == 0 {
		found := "it is empty"
		if len(names) > 0 {
			found = "it has " + strings.Join(names[:min(len(names), 5)], ", ")
		}
		return Splits{}, &Error{File: path, Kind: Unreadable, Reason: "the folder has no train file: " + found,
			Remedy: "name the file train.jsonl or train.parquet, or give the file instead of the folder"}
	}
	return s, nil
}

// Extensions of files with records, and of all files in a data folder.
var (
	recordExtensions = []string{".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv"}
	dataExtensions   = append(slices.Clone(recordExtensions), ".txt")
)

// extension returns the extension of a file in lower case, ignoring .gz.
func extension(path string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(path), ".gz"))
}

// IsPlainText reports whether a source is read as plain text, one example per file: it is not a pipe,
// whose first character decides, and does not have the extension of JSON, Parquet or a table.
func IsPlainText(source string) bool { return !hasRecords(source) && !IsPipe(source) }

// hasRecords reports whether a source has the extension of a file with records.
func hasRecords(source string) bool { return slices.Contains(recordExtensions, extension(source)) }

// IsPipe reports whether a source can be read only once: the standard input, or a pipe such as a
// shell's <(command).
func IsPipe(source string) bool {
	if isStdin(source) {
		return true
	}
	info, err := os.Stat(source)
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

func isStdin(source string) bool { return source == Stdin || source == "/dev/stdin" }

// Expand returns the files of sources: for a folder the files of its splits, for a pattern such as
// data/*.jsonl the matching files sorted by name, and otherwise the file itself. Files that are not
// from a folder belong to the train split.
func Expand(sources []string) (Splits, error) {
	var all Splits
	for _, source := range sources {
		s, err := expand(source)
		if err != nil {
			return Splits{}, err
		}
		all = Splits{append(all.Train, s.Train...), append(all.Valid, s.Valid...), append(all.Test, s.Test...)}
	}
	if len(all.Train) == 0 {
		return Splits{}, &Error{Kind: NoExamples, Reason: "no source of data is given"}
	}
	return all, nil
}

func expand(source string) (Splits, error) {
	if isStdin(source) {
		return Splits{Train: []string{source}}, nil
	}
	info, err := os.Stat(source)
	switch {
	case err == nil && info.IsDir():
		return Folder(source)
	case err == nil:
		return Splits{Train: []string{source}}, nil
	case !strings.ContainsAny(source, "*?["):
		return Splits{}, unreadable(source, err)
	}
	files, err := filepath.Glob(source)
	if err != nil {
		return Splits{}, &Error{File: source, Kind: Unreadable, Reason: "invalid pattern: " + err.Error(), Err: err}
	}
	if len(files) == 0 {
		return Splits{}, &Error{File: source, Kind: Unreadable, Reason: "no file matches the pattern",
			Remedy: "quote it, so that the shell leaves it alone, and check the folder"}
	}
	return Splits{Train: files}, nil
}

// isText reports whether files are text; otherwise they have records. Mixed files are an error.
func isText(files []string, readers map[string]RecordReader) (bool, error) {
	isPlain := func(file string) bool { return IsPlainText(file) && readers[extension(file)] == nil }
	text := slices.IndexFunc(files, isPlain)
	record := slices.IndexFunc(files, func(file string) bool { return !isPlain(file) })
	if text >= 0 && record >= 0 {
		return false, fmt.Errorf("%s is text and %s has records; train on one kind", files[text], files[record])
	}
	return text >= 0, nil
}

// unreadable returns the error for a file that the system cannot read.
func unreadable(path string, err error) *Error {
	e := &Error{File: displayName(path), Kind: Unreadable, Reason: err.Error(), Err: err}
	var cause *os.PathError
	if errors.As(err, &cause) {
		e.Reason = cause.Err.Error()
	}
	return e
}

func displayName(path string) string {
	if isStdin(path) {
		return "stdin"
	}
	return path
}
