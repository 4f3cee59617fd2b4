"""Grammars that clients send. The first is of the shape that coding agents give to their patch tool."""

PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

%import common.LF
"""
GOOD_PATCH = "*** Begin Patch\n*** Add File: a.py\n+print(1)\n+\n*** End Patch\n"
BAD_PATCH = "*** Begin Patch\n*** Add File: a.py\nprint(1)\n*** End Patch\n"

# No sentence of it is read in a reasonable number of steps.
AMBIGUOUS = 'start: e\ne: e e e | e e | "a" | "aa" |\n'

# A program, with options in a first line: everything matches but nothing at all.
PROGRAM = r"""
start: with_options | plain
with_options: OPTIONS NEWLINE PROGRAM
plain: PROGRAM

OPTIONS: /[ \t]*# options:[^\r\n]*/
NEWLINE: /\r?\n/
PROGRAM: /[\s\S]+/
"""
