package main

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "What server would run on, from flags, environment and file",
		Example: "  onced config show --config onced.toml\n  onced config validate --config onced.toml",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(a.configShowCommand(), a.configValidateCommand())
	return cmd
}

func (a *app) configShowCommand() *cobra.Command {
	var (
		configFile string
		out        output
	)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every setting as server would take it",
		Long: `Print every setting as server would take it, from the same flags, environment and
file. The output is a file for --config.`,
		Example: "  onced config show --config onced.toml\n  ONCED_NODE_ID=n2 onced config show -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := a.settingsOf(cmd, configFile)
			if err != nil {
				return err
			}
			var b []byte
			if out.json {
				b = append(b, '{')
			}
			for i, s := range serverSettings {
				value, _ := jsontext.AppendQuote(nil, values[s.name])
				if s.isBool {
					value = []byte(values[s.name])
				}
				switch {
				case !out.json:
					b = fmt.Appendf(b, "%s = %s\n", s.name, value)
				case i > 0:
					b = fmt.Appendf(b, ",%q:%s", s.name, value)
				default:
					b = fmt.Appendf(b, "%q:%s", s.name, value)
				}
			}
			if out.json {
				b = append(b, "}\n"...)
			}
			_, err = a.stdout.Write(b)
			return err
		},
	}
	addSettingFlags(cmd, serverSettings)
	addConfigFlag(cmd, &configFile)
	out.addFlag(cmd)
	return cmd
}

func (a *app) configValidateCommand() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Tell whether server would take these settings; exit code 0 or 78",
		Long: `Tell whether server would take these settings, from the same flags, environment
and file: exit code 0, or 78 with the setting to change. Nothing is opened, so
whether the ports are free and the data fits is not looked at.`,
		Example: "  onced config validate --config onced.toml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := a.settingsOf(cmd, configFile)
			if err != nil {
				return err
			}
			c, err := parseServerConfig(values)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "ok: node %s, API %s, other nodes at %s, data in %s\n", c.nodeID, c.httpAdvertise, c.peerAdvertise, c.dataDir)
			return err
		},
	}
	addSettingFlags(cmd, serverSettings)
	addConfigFlag(cmd, &configFile)
	return cmd
}

func addConfigFlag(cmd *cobra.Command, configFile *string) {
	cmd.Flags().StringVar(configFile, "config", "", "TOML file with these settings; also ONCED_CONFIG")
}

// settingsOf gives the settings of server as cmd was told them, and warns of
// variables that mean nothing.
func (a *app) settingsOf(cmd *cobra.Command, configFile string) (map[string]string, error) {
	if configFile == "" {
		configFile = a.getenv("ONCED_CONFIG")
	}
	values, warnings, err := loadSettings(cmd, serverSettings, configFile, a.environ)
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", w)
	}
	return values, err
}
