package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/internal/testhook"
)

// upstream holds ggml/UPSTREAM and the note of scripts/vendor about the installed ggml
// it found or fetched. The go command does not see when ggml's headers change:
// that note makes it build this package again for another version.
//
//go:embed ggml/UPSTREAM*
var upstream embed.FS

func init() {
	testhook.CheckVersion, testhook.MinimumVersion = checkVersion, minimumVersion
}

// Version returns the version of the C library. C: ggml_version.
func Version() string { return C.GoString(C.ggml_version()) }

// Commit returns the commit from which the C library was built, if its builder recorded it. C:
// ggml_commit.
func Commit() string { return C.GoString(C.ggml_commit()) }

// checkVersion fails if the C library is older than this package requires. The compiler sees only
// headers, and a program may load another library than it was built with.
func checkVersion(version string) error {
	minimum, err := minimumVersion()
	if err != nil {
		return err
	}
	if slices.Compare(versionNumbers(version), versionNumbers(minimum)) < 0 {
		return fmt.Errorf("ggml: the installed ggml is version %s, but this program needs %s or newer: %s",
			version, minimum, installHints["CPU"])
	}
	return nil
}

// minimumVersion returns the oldest version of the C library that ggml/UPSTREAM accepts.
func minimumVersion() (string, error) {
	text, err := upstream.ReadFile("ggml/UPSTREAM")
	if err != nil {
		return "", fmt.Errorf("ggml: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if v, found := strings.CutPrefix(line, "minimum:"); found {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("ggml: ggml/UPSTREAM names no minimum")
}

// versionNumbers splits "1.0.0-dev" into 1, 0 and 0.
func versionNumbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	var numbers []int
	for field := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}
