package training

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
)

// ownFolders is where runs are to which no flag gives a place.
const ownFolders = "runs"

// OpenOwnFolder makes a folder for a run to which no flag gives a place, named after its model and
// its data. It is always a new one: a run goes on only where its folder is named.
func OpenOwnFolder(model, data string) (*RunFolder, error) {
	if err := filelink.MkdirAll(ownFolders, 0o777); err != nil {
		return nil, fmt.Errorf("the run needs a folder (--run-dir names another than one in %s): %w", ownFolders, err)
	}
	name := filepath.Join(ownFolders, stem(model)+"-"+stem(data))
	path := name
	for n := 2; ; n++ {
		err := os.Mkdir(path, 0o777)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("the run needs a folder (--run-dir names another than one in %s): %w", ownFolders, err)
		}
		path = fmt.Sprintf("%s-%d", name, n)
	}
	r, err := OpenRunFolder(path)
	if err != nil {
		return nil, err
	}
	r.isOwn = true
	return r, nil
}

// stem is the name of a file without its folder and its extension.
func stem(path string) string {
	if path == "-" {
		return "stdin"
	}
	name := filepath.Base(filepath.Clean(path))
	if short := strings.TrimSuffix(name, filepath.Ext(name)); short != "" {
		name = short
	}
	const longest = 60 // of most file systems, a name has 255 bytes
	runes := []rune(strings.Trim(name, ".-"))
	return string(runes[:min(len(runes), longest)])
}

// removeUnused removes a folder of its own in which no run has begun.
func (r *RunFolder) removeUnused() error {
	if !r.isOwn || runs.Is(r.Path) {
		return nil
	}
	os.Remove(filepath.Join(r.Path, runs.Lock))
	os.RemoveAll(filepath.Join(r.Path, runs.Cache))
	err := os.Remove(r.Path)
	os.Remove(ownFolders) // which may have others
	return err
}

// Name says where a run is that no flag has given a place, "" of others.
func (r *RunFolder) Name() string {
	if !r.isOwn {
		return ""
	}
	return fmt.Sprintf("the run is in %s; %s goes on with it", r.Path, cli.ShellArg("--run-dir", r.Path))
}
