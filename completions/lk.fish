# fish completion of lk. What there is at this moment (keys, owners, stores, locks, parameters) is asked of lk, once.

# The words before the cursor, without their quotes; from fish 4 on with their variables and home folders filled in.
if string match -qr '^[0-3]\.' -- $version
    function __lk_words
        for word in (commandline -opc)
            string match -q '~/*' -- $word; and echo -- $HOME(string sub -s 2 -- $word); or echo -- $word
        end
    end
else
    function __lk_words
        commandline -xpc
    end
end

# Sets lk_program; lk_command; lk_asks, the options that lk needs to answer; lk_given, the options there are; and after
# the -- lk_dashes and lk_rest.
function __lk_read --no-scope-shadowing
    set --local words (__lk_words)
    set lk_program lk
    set lk_command
    set lk_asks
    set lk_given
    set lk_dashes
    set lk_rest
    set --local option
    string match -q '*/*' -- $words[1]; and set lk_program $words[1]
    for word in $words[2..]
        if set -q lk_dashes[1]
            set -a lk_rest $word
        else if test "$word" = --
            set lk_dashes --
        else if set -q option[1]
            contains -- $option --store --config --prefix --lock --with --key
            and set -a lk_asks $option=$word
            set option
        else
            switch $word
                case '--*=*'
                    set --local pair (string split -m 1 = -- $word)
                    set -a lk_given $pair[1]
                    contains -- $pair[1] --store --config --prefix --lock --with --key
                    and set -a lk_asks $word
                case --store --prefix --config --color --key --lock --with --ttl --wait --max-waiting --owner --note \
                    --busy-exit --held-longer-than --kill-after --on-lost --min-hold --status-fd --output --fence --list
                    set -a lk_given $word
                    set option $word
                case '-*'
                    string match -qr '^-[^-]*E$' -- $word; and set option --busy-exit
                case '*'
                    set -q lk_command[1]; or set lk_command $word
            end
        end
    end
end

# In which commands the cursor is: among the words of one of these, or in front of any.
function __lk_in
    __lk_read
    if set -q argv[1]
        contains -- "$lk_command" $argv
    else
        not set -q lk_command[1]
    end
end

function __lk_ask
    __lk_read
    # A command that is not there would be told of, whatever becomes of its stderr.
    command -sq $lk_program
    and command $lk_program completion --list $argv $lk_asks 2>/dev/null </dev/null
end

# A word of status is a pattern.
function __lk_patterns
    __lk_ask keys | string replace -ra '[\\\\*?\[]' '\\\\$0'
end

function __lk_parameters
    set --local typed (commandline -ct | string replace -r '^--with=' '')
    string match -q '*=*' -- $typed; and return
    __lk_read
    for parameter in (__lk_ask parameters)
        string match -q -- "--with=$parameter=*" $lk_asks; or echo $parameter=
    end
end

# lk takes a word without a slash for the name of a store.
function __lk_stores
    string match -qr '/|^~' -- (commandline -ct); and return
    __lk_ask stores
    for file in *
        test -d $file; and echo $file/; or echo ./$file
    end
end

# Who has a lock goes on to the command.
function __lk_before_dashes
    __lk_read
    test "$lk_command" = exec; and not set -q lk_dashes[1]
    and string match -qr '^--(key|lock)$' -- $lk_given
end

function __lk_after_dashes
    __lk_read
    test "$lk_command" = exec; and set -q lk_dashes[1]
end

# What fish completes for the command itself.
function __lk_command
    __lk_read
    set -q lk_rest[1]; and set lk_rest (string escape -- $lk_rest)
    complete -C (string join ' ' -- $lk_rest (commandline -ct))
end

function __lk_commands
    printf '%s\t%s\n' \
        exec 'Run a command while holding a lock' \
        acquire 'Try once to get a lock, and print its owner token' \
        block 'Wait in line for a lock, and print its owner token' \
        renew 'Prolong a lock that is still held' \
        release 'Give a lock back, or free one whose holder is in the way (--force)' \
        status 'Show who holds what, since when, until when, and who waits' \
        config 'Show the settings, and where each comes from' \
        completion 'Print the completion script of a shell' \
        help 'Explain lk, or one of its commands'
end

complete -c lk -f
complete -c lk -n __lk_in -a '(__lk_commands)'
complete -c lk -n __lk_in -l version -d 'print the version'

set --local takers exec acquire block
set --local lockers $takers renew release status completion
set --local all $lockers config

complete -c lk -n "__lk_in $takers" -l key -x -d 'the name of the lock'
complete -c lk -n '__lk_in renew release completion' -l key -x -a '(__lk_ask keys)' -d 'the name of the lock (LK_KEY)'
complete -c lk -n '__lk_in status' -l key -x -a '(__lk_ask keys)' -d 'this very key, also one with * in it'
complete -c lk -n "__lk_in $lockers" -l lock -x -a '(__lk_ask locks)' -d 'a lock of the settings file, instead of --key'
complete -c lk -n "__lk_in $lockers" -l with -x -a '(__lk_parameters)' -d 'the value of a parameter in its key'

complete -c lk -n '__lk_in exec' -l ttl -x -d 'the lease, renewed while CMD runs (LK_TTL; default 60s)'
complete -c lk -n '__lk_in acquire block' -l ttl -x -d 'it ends after D unless renewed (LK_TTL; default 15m)'
complete -c lk -n '__lk_in renew' -l ttl -x -d 'from now, never shortening (LK_TTL; default 15m)'
complete -c lk -n '__lk_in exec' -l wait -x -a forever -d 'wait in line that long (default 0: try once)'
complete -c lk -n '__lk_in block' -l wait -x -a forever -d 'longest wait, 0: one try (default forever)'
complete -c lk -n '__lk_in exec block' -l max-waiting -x -d 'join the line only if fewer than N wait'
complete -c lk -n "__lk_in $takers" -l owner -x -d 'the owner token (default random; -: read from stdin)'
complete -c lk -n '__lk_in renew release' -l owner -x -a '(__lk_ask owners)' -d 'its owner token (LK_OWNER; -: read from stdin)'
complete -c lk -n "__lk_in $takers" -l note -x -d 'shown by status'
complete -c lk -n '__lk_in acquire block' -l output -x -a 'token env json' -d 'token, env (for eval) or json (default token)'
complete -c lk -n "__lk_in $takers" -l raw-key -d 'take a key that begins or ends with : or /'

complete -c lk -n '__lk_in exec' -s E -l busy-exit -x -d 'exit status when not acquired (default 75)'
complete -c lk -n '__lk_in exec' -l kill-after -x -d 'from TERM to KILL (default ttl/4, at most 5s)'
complete -c lk -n '__lk_in exec' -l on-lost -x -a 'term kill warn' -d 'when the lock is lost (default term)'
complete -c lk -n '__lk_in exec' -l min-hold -x -d 'keep the lock until D after the grant'
complete -c lk -n '__lk_in exec' -l status-fd -x -d 'write one JSON line there at the end'
complete -c lk -n '__lk_in exec' -l nested -d 'run under the lock if a parent exec holds it'
complete -c lk -n __lk_before_dashes -a -- -d 'then the command'
complete -c lk -n __lk_after_dashes -a '(__lk_command)'

complete -c lk -n '__lk_in release' -l force -d 'remove the holder, whoever it is; shows it and asks'
complete -c lk -n '__lk_in release' -l yes -d 'with --force: do not ask'
complete -c lk -n '__lk_in release' -l fence -x -d 'only the grant with this fence'

complete -c lk -n '__lk_in status' -l json -d 'an array of objects, for programs'
complete -c lk -n '__lk_in status' -l watch -d 'show it again every second, until Ctrl-C'
complete -c lk -n '__lk_in status' -l held-longer-than -x -d 'only those; status 1 if there are none'
complete -c lk -n '__lk_in status' -a '(__lk_patterns)'

complete -c lk -n '__lk_in completion' -a 'bash zsh fish'
complete -c lk -n '__lk_in completion' -l list -x -a 'stores locks parameters keys owners' -d 'the words there are now'
complete -c lk -n '__lk_in help' -a '(__lk_commands)'

complete -c lk -n "__lk_in; or __lk_in $all" -l store -x -a '(__lk_stores)' -d 'where locks live (LK_STORE; default: a file of this user)'
complete -c lk -n "string match -qr '/|^~' -- (commandline -ct)" -l store -r -F
complete -c lk -n "__lk_in; or __lk_in $all" -l prefix -x -d 'before each key in Redis (LK_PREFIX; default lk:)'
complete -c lk -n "__lk_in; or __lk_in $all" -l config -r -F -d 'settings, instead of the usual files (LK_CONFIG)'
complete -c lk -n '__lk_in; or __lk_in status config' -l color -x -a 'auto always never' -d 'auto, always or never (default auto)'
complete -c lk -n "__lk_in; or __lk_in $all" -s q -l quiet -d 'say nothing but errors'
complete -c lk -n "__lk_in; or __lk_in $all" -s v -l verbose -d 'say more'
complete -c lk -s h -l help -d 'show the options and do nothing'
