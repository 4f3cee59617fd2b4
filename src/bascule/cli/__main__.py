from bascule.cli.main import main

main()
