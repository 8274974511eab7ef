"""Files of YAML and JSON, read with line numbers and watched for changes.

In: paths. Out: objects as plain trees with the line of each field; problems with file, line, field and cure; a call
when a file has changed.
"""
