# bash completion for caisson; made by 'caisson completion bash'

_caisson_reply() {
    local words=
    case $1 in
    @box) words=$(caisson ls --names 2>/dev/null) ;;
    @image) words=$(caisson image ls -q 2>/dev/null) ;;
    @volume) words=$(caisson volume ls -q 2>/dev/null) ;;
    @file) compopt -o default 2>/dev/null; return ;;
    @dir) compopt -o dirnames 2>/dev/null; return ;;
    @none) return ;;
    *) words=$1 ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

_caisson() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local cmd='' sub='' i=1 opts='' kind='' operands=@none
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
        --state) ((i++)) ;;
        --) [[ -n $cmd ]] && { compopt -o default 2>/dev/null; return; } ;;
        -*) ;;
        *) if [[ -z $cmd ]]; then cmd=${COMP_WORDS[i]}; elif [[ -z $sub ]]; then sub=${COMP_WORDS[i]}; fi ;;
        esac
        ((i++))
    done
    case $cmd in
    run)
        opts='--help --interactive --stdin --tty --detach --merge --json --raw --receipt --quiet --entrypoint --name --image --env --env-file --label --volume --net --cwd --user --ptrace --ttl --idle-stop --optional --memory --cpu --pids --disk --inodes --open-files --tmp-size --shm-size --timeout --output-limit --strict --keep --rm --daytona --backend --daytona-env'
        case $prev in
        --stdin) kind='@file' ;;
        --entrypoint) kind='@none' ;;
        -n | --name) kind='@none' ;;
        --image) kind='@image' ;;
        --snapshot) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -l | --label) kind='@none' ;;
        -v | --volume) kind='@volume' ;;
        --net) kind='none outbound' ;;
        --network) kind='none outbound' ;;
        -w | --cwd) kind='@none' ;;
        --workdir) kind='@none' ;;
        -u | --user) kind='daytona root' ;;
        --ttl) kind='@none' ;;
        --idle-stop) kind='@none' ;;
        --optional) kind='@none' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --cpus) kind='@none' ;;
        --pids) kind='@none' ;;
        --pids-limit) kind='@none' ;;
        --disk) kind='@none' ;;
        --inodes) kind='@none' ;;
        --open-files) kind='@none' ;;
        --tmp-size) kind='@none' ;;
        --shm-size) kind='@none' ;;
        --timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --strict) kind='memory cpu pids disk all' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        operands='@file'
        ;;
    create)
        opts='--help --name --image --env --env-file --label --volume --net --cwd --user --ptrace --ttl --idle-stop --optional --memory --cpu --pids --disk --inodes --open-files --tmp-size --shm-size --timeout --output-limit --strict --ephemeral --json --quiet --daytona --backend --daytona-env'
        case $prev in
        -n | --name) kind='@none' ;;
        --image) kind='@image' ;;
        --snapshot) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -l | --label) kind='@none' ;;
        -v | --volume) kind='@volume' ;;
        --net) kind='none outbound' ;;
        --network) kind='none outbound' ;;
        -w | --cwd) kind='@none' ;;
        --workdir) kind='@none' ;;
        -u | --user) kind='daytona root' ;;
        --ttl) kind='@none' ;;
        --idle-stop) kind='@none' ;;
        --optional) kind='@none' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --cpus) kind='@none' ;;
        --pids) kind='@none' ;;
        --pids-limit) kind='@none' ;;
        --disk) kind='@none' ;;
        --inodes) kind='@none' ;;
        --open-files) kind='@none' ;;
        --tmp-size) kind='@none' ;;
        --shm-size) kind='@none' ;;
        --timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --strict) kind='memory cpu pids disk all' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        ;;
    exec)
        opts='--help --env --env-file --cwd --user --timeout --output-limit --interactive --stdin --tty --detach --merge --json --raw --receipt --quiet --daytona --backend --daytona-env'
        case $prev in
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -w | --cwd) kind='@none' ;;
        --workdir) kind='@none' ;;
        -u | --user) kind='daytona root' ;;
        --timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --stdin) kind='@file' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        operands='@box'
        ;;
    shell | sh)
        opts='--help --quiet --name --image --env --env-file --label --volume --net --cwd --user --ptrace --ttl --idle-stop --optional --memory --cpu --pids --disk --inodes --open-files --tmp-size --shm-size --timeout --output-limit --strict --daytona --backend --daytona-env'
        case $prev in
        -n | --name) kind='@none' ;;
        --image) kind='@image' ;;
        --snapshot) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -l | --label) kind='@none' ;;
        -v | --volume) kind='@volume' ;;
        --net) kind='none outbound' ;;
        --network) kind='none outbound' ;;
        -w | --cwd) kind='@none' ;;
        --workdir) kind='@none' ;;
        -u | --user) kind='daytona root' ;;
        --ttl) kind='@none' ;;
        --idle-stop) kind='@none' ;;
        --optional) kind='@none' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --cpus) kind='@none' ;;
        --pids) kind='@none' ;;
        --pids-limit) kind='@none' ;;
        --disk) kind='@none' ;;
        --inodes) kind='@none' ;;
        --open-files) kind='@none' ;;
        --tmp-size) kind='@none' ;;
        --shm-size) kind='@none' ;;
        --timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --strict) kind='memory cpu pids disk all' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        operands='@box'
        ;;
    arena | forge)
        opts='--help --candidate --candidates --artifacts --artifact-name --jobs --trials --seed --report --json --plain --quiet --check --scorer --scorer-timeout --weights --objective --output-path --env --pip --find-links --setup --net --image --optional --timeout --upload-timeout --setup-timeout --artifact-timeout --output-limit --artifact-limit --memory --cpu --pids --disk --daytona --backend --daytona-env'
        case $prev in
        -c | --candidate) kind='@file' ;;
        --candidates) kind='@file' ;;
        --artifacts) kind='@dir' ;;
        --artifact-name) kind='@none' ;;
        -j | --jobs) kind='@none' ;;
        --trials) kind='@none' ;;
        --seed) kind='@none' ;;
        --report) kind='@file' ;;
        --check) kind='@none' ;;
        --scorer) kind='@file' ;;
        --scorer-timeout) kind='@none' ;;
        --weights) kind='@none' ;;
        -o | --objective) kind='@none' ;;
        --output-path) kind='@none' ;;
        -e | --env) kind='@none' ;;
        --pip) kind='@none' ;;
        --find-links) kind='@dir' ;;
        --setup) kind='@none' ;;
        --net) kind='none outbound' ;;
        --image) kind='@image' ;;
        --optional) kind='@none' ;;
        -t | --timeout) kind='@none' ;;
        --upload-timeout) kind='@none' ;;
        --setup-timeout) kind='@none' ;;
        --artifact-timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --artifact-limit) kind='@none' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --cpus) kind='@none' ;;
        --pids) kind='@none' ;;
        --disk) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        ;;
    candidate)
        opts='--help --id --output --json --quiet --objective --output-path --env --pip --find-links --setup --net --image --optional --timeout --upload-timeout --setup-timeout --artifact-timeout --output-limit --artifact-limit --memory --cpu --pids --disk --daytona --backend --daytona-env'
        case $prev in
        --id) kind='@none' ;;
        --output) kind='@file' ;;
        -o | --objective) kind='@none' ;;
        --output-path) kind='@none' ;;
        -e | --env) kind='@none' ;;
        --pip) kind='@none' ;;
        --find-links) kind='@dir' ;;
        --setup) kind='@none' ;;
        --net) kind='none outbound' ;;
        --image) kind='@image' ;;
        --optional) kind='@none' ;;
        -t | --timeout) kind='@none' ;;
        --upload-timeout) kind='@none' ;;
        --setup-timeout) kind='@none' ;;
        --artifact-timeout) kind='@none' ;;
        --output-limit) kind='@none' ;;
        --artifact-limit) kind='@none' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --cpus) kind='@none' ;;
        --pids) kind='@none' ;;
        --disk) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@file'
        ;;
    blocks)
        opts='--help --lang --code --commonmark --messages --last-n --extract-only --timeout --snapshot --image --env --env-file --name --memory --cpu --disk --net --optional --keep --reply --json --quiet --daytona --backend --daytona-env'
        case $prev in
        --lang) kind='python bash sh javascript typescript' ;;
        --code) kind='@none' ;;
        --last-n) kind='@none' ;;
        -t | --timeout) kind='@none' ;;
        --snapshot) kind='@image' ;;
        --image) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -n | --name) kind='@none' ;;
        --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --disk) kind='@none' ;;
        --optional) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        operands='@file'
        ;;
    interp)
        opts='--help --code --file --interactive --vars --events --json --quiet --session --volume --volume-subpath --repo --ref --context --image --env --env-file --memory --cpu --net --timeout --execute-timeout --optional --profile --field --llm-url --llm-model --llm-cmd --max-llm-calls --llm-timeout --max-depth --child-isolation --child-fallback --sync --daytona --backend --daytona-env'
        case $prev in
        -c | --code) kind='@none' ;;
        -f | --file) kind='@file' ;;
        --vars) kind='@none' ;;
        --events) kind='@file' ;;
        -s | --session) kind='@none' ;;
        --volume) kind='@volume' ;;
        --volume-subpath) kind='@none' ;;
        --repo) kind='@dir' ;;
        --ref) kind='@none' ;;
        --context) kind='@file' ;;
        --image) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --timeout) kind='@none' ;;
        --execute-timeout) kind='@none' ;;
        --optional) kind='@none' ;;
        --profile) kind='ROOT_INTERLOCUTOR RLM_ROOT RLM_DELEGATE MAINTENANCE' ;;
        --field) kind='@none' ;;
        --llm-url) kind='@none' ;;
        --llm-model) kind='@none' ;;
        --llm-cmd) kind='@none' ;;
        --max-llm-calls) kind='@none' ;;
        --llm-timeout) kind='@none' ;;
        --max-depth) kind='@none' ;;
        --child-isolation) kind='auto context' ;;
        --child-fallback) kind='clean fail' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        ;;
    rlm)
        opts='--help --input --max-iterations --json --quiet --llm-url --llm-model --llm-cmd --max-llm-calls --llm-timeout --max-depth --child-isolation --child-fallback --sync --session --volume --volume-subpath --repo --ref --context --image --env --env-file --memory --cpu --net --timeout --execute-timeout --optional --profile --field --daytona --backend --daytona-env'
        case $prev in
        --input) kind='@file' ;;
        --max-iterations) kind='@none' ;;
        --llm-url) kind='@none' ;;
        --llm-model) kind='@none' ;;
        --llm-cmd) kind='@none' ;;
        --max-llm-calls) kind='@none' ;;
        --llm-timeout) kind='@none' ;;
        --max-depth) kind='@none' ;;
        --child-isolation) kind='auto context' ;;
        --child-fallback) kind='clean fail' ;;
        -s | --session) kind='@none' ;;
        --volume) kind='@volume' ;;
        --volume-subpath) kind='@none' ;;
        --repo) kind='@dir' ;;
        --ref) kind='@none' ;;
        --context) kind='@file' ;;
        --image) kind='@image' ;;
        -e | --env) kind='@none' ;;
        --env-file) kind='@file' ;;
        -m | --memory) kind='@none' ;;
        --cpu) kind='@none' ;;
        --timeout) kind='@none' ;;
        --execute-timeout) kind='@none' ;;
        --optional) kind='@none' ;;
        --profile) kind='ROOT_INTERLOCUTOR RLM_ROOT RLM_DELEGATE MAINTENANCE' ;;
        --field) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        ;;
    session)
        case $sub in
        ls)
            opts='--help --quiet --json --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        rm)
            opts='--help --force --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        export)
            opts='--help --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        import)
            opts='--help --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@file'
            ;;
        *) operands='ls rm export import' ;;
        esac
        ;;
    smoke)
        opts='--help --repo --ref --net --optional --daytona --backend --daytona-env'
        case $prev in
        --repo) kind='@dir' ;;
        --ref) kind='@none' ;;
        --optional) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        ;;
    diagnose)
        opts='--help --env-file --daytona --backend --daytona-env'
        case $prev in
        --env-file) kind='@file' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        esac
        ;;
    ls | ps)
        opts='--help --label --state --all --quiet --names --no-trunc --json --daytona --backend --daytona-env'
        case $prev in
        -l | --label) kind='@none' ;;
        -s | --state) kind='creating started stopped deleting' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        ;;
    inspect)
        opts='--help --json --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    logs)
        opts='--help --follow --offset --stream --raw --daytona --backend --daytona-env'
        case $prev in
        --offset) kind='@none' ;;
        --stream) kind='stdout stderr' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    stats)
        opts='--help --no-stream --json --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    cp)
        opts='--help --quiet --raw --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@file'
        ;;
    start)
        opts='--help --quiet --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    stop)
        opts='--help --time --all --quiet --daytona --backend --daytona-env'
        case $prev in
        -t | --time) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    rm | delete)
        opts='--help --force --all --quiet --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    fork)
        opts='--help --name --label --ttl --idle-stop --ephemeral --json --daytona --backend --daytona-env'
        case $prev in
        -n | --name) kind='@none' ;;
        -l | --label) kind='@none' ;;
        --ttl) kind='@none' ;;
        --idle-stop) kind='@none' ;;
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    snapshot)
        opts='--help --quiet --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        operands='@box'
        ;;
    image)
        case $sub in
        import)
            opts='--help --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@file'
            ;;
        build)
            opts='--help --debian --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        ls)
            opts='--help --quiet --json --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        inspect)
            opts='--help --json --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@image'
            ;;
        rm)
            opts='--help --force --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@image'
            ;;
        *) operands='import build ls inspect rm' ;;
        esac
        ;;
    volume)
        case $sub in
        create)
            opts='--help --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        ls)
            opts='--help --quiet --json --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            ;;
        inspect)
            opts='--help --json --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@volume'
            ;;
        tree)
            opts='--help --depth --json --daytona --backend --daytona-env'
            case $prev in
            --depth) kind='@none' ;;
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@volume'
            ;;
        cat)
            opts='--help --max --json --daytona --backend --daytona-env'
            case $prev in
            --max) kind='@none' ;;
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@volume'
            ;;
        rm)
            opts='--help --force --quiet --daytona --backend --daytona-env'
            case $prev in
            --backend) kind='local daytona' ;;
            --daytona-env) kind='@file' ;;
            --env-file) kind='@file' ;;
            esac
            operands='@volume'
            ;;
        *) operands='create ls inspect tree cat rm' ;;
        esac
        ;;
    serve)
        opts='--help --listen --state --api-key --key-file --public-url --preview-token-life --preview-token-is-key --trust-proxy --user --optional --debug --network --snapshot --strict --clamp --overcommit --disk-reserve --warm --spare --max-sandboxes --max-cpu --max-memory --max-disk --max-snapshots --max-snapshot-disk --max-volumes --max-volume-disk --max-requests --max-connections --max-connections-per-address'
        case $prev in
        -l | --listen) kind='@none' ;;
        --state) kind='@dir' ;;
        --api-key) kind='@none' ;;
        --key-file) kind='@file' ;;
        --public-url) kind='@none' ;;
        --preview-token-life) kind='@none' ;;
        --user) kind='@none' ;;
        --optional) kind='@none' ;;
        --network) kind='none outbound' ;;
        --snapshot) kind='@image' ;;
        --strict) kind='memory cpu pids disk all' ;;
        --overcommit) kind='@none' ;;
        --disk-reserve) kind='@none' ;;
        --warm) kind='@none' ;;
        --spare) kind='@none' ;;
        --max-sandboxes) kind='@none' ;;
        --max-cpu) kind='@none' ;;
        --max-memory) kind='@none' ;;
        --max-disk) kind='@none' ;;
        --max-snapshots) kind='@none' ;;
        --max-snapshot-disk) kind='@none' ;;
        --max-volumes) kind='@none' ;;
        --max-volume-disk) kind='@none' ;;
        --max-requests) kind='@none' ;;
        --max-connections) kind='@none' ;;
        --max-connections-per-address) kind='@none' ;;
        esac
        ;;
    key)
        case $sub in
        create)
            opts='--help --expires --org --json --state --user'
            case $prev in
            --expires) kind='@none' ;;
            --org) kind='@none' ;;
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        ls)
            opts='--help --json --state --user'
            case $prev in
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        rm)
            opts='--help --org --state --user'
            case $prev in
            --org) kind='@none' ;;
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        *) operands='create ls rm' ;;
        esac
        ;;
    org)
        case $sub in
        set)
            opts='--help --max-sandboxes --max-cpu --max-memory --max-disk --max-snapshots --max-snapshot-disk --max-volumes --max-volume-disk --state --user'
            case $prev in
            --max-sandboxes) kind='@none' ;;
            --max-cpu) kind='@none' ;;
            --max-memory) kind='@none' ;;
            --max-disk) kind='@none' ;;
            --max-snapshots) kind='@none' ;;
            --max-snapshot-disk) kind='@none' ;;
            --max-volumes) kind='@none' ;;
            --max-volume-disk) kind='@none' ;;
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        reset)
            opts='--help --state --user'
            case $prev in
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        ls)
            opts='--help --json --state --user'
            case $prev in
            --state) kind='@dir' ;;
            --user) kind='@none' ;;
            esac
            ;;
        *) operands='set reset ls' ;;
        esac
        ;;
    gc)
        opts='--help --json --daytona --backend --daytona-env'
        case $prev in
        --backend) kind='local daytona' ;;
        --daytona-env) kind='@file' ;;
        --env-file) kind='@file' ;;
        esac
        ;;
    doctor)
        opts='--help --quiet --json'
        case $prev in
        esac
        ;;
    version)
        opts='--help --json'
        case $prev in
        esac
        ;;
    completion)
        opts='--help'
        operands='bash zsh fish'
        ;;
    help)
        opts='--help'
        operands='run create exec shell arena candidate blocks interp rlm session smoke diagnose ls inspect logs stats cp start stop rm fork snapshot image volume serve key org gc doctor version completion help'
        ;;
    '')
        opts='--help --version --state'
        [[ $prev == --state ]] && kind=@dir
        operands='run create exec shell arena candidate blocks interp rlm session smoke diagnose ls inspect logs stats cp start stop rm fork snapshot image volume serve key org gc doctor version completion help'
        ;;
    esac
    if [[ -n $kind ]]; then
        _caisson_reply "$kind" "$cur"
    elif [[ $cur == -* ]]; then
        _caisson_reply "$opts" "$cur"
    else
        _caisson_reply "$operands" "$cur"
    fi
}
complete -F _caisson caisson
